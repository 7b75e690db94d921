"""Which devices there are, what they are called and what they can do.

Source: torch/cuda/__init__.py and torch/csrc/cuda/Module.cpp, whose functions these stand in for.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.device.answers.state import State
from oomph.tracing.settings import Version

#: The CUDA version of the wheel that PyPI has for a torch version (release notes of PyTorch); the last one holds on.
_CUDA_VERSIONS: tuple[tuple[Version, str], ...] = (
    ((2, 4), "12.1"),
    ((2, 5), "12.4"),
    ((2, 7), "12.6"),
    ((2, 8), "12.8"),
    ((2, 11), "13.0"),
)
#: cuDNN 9.10.2: libraries ask for at least some version, none for this one.
_CUDNN_VERSION = 91002
#: NCCL 2.27.3, encoded as torch/csrc/cuda/python_nccl.cpp does.
_NCCL_VERSION = 2 << 32 | 27 << 16 | 3
#: What x86 wheels of recent torch are built for.
_ARCHITECTURES = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"


class DeviceProperties:
    """Stands in for `torch._C._CudaDeviceProperties`. Sizes are bytes, rates kHz.

    From the GPU's row are name, capability, SMs, threads and memory; the rest is what all GPUs since Volta share
    (CUDA C++ Programming Guide, compute capabilities) or 0 where nothing is known.
    """

    def __init__(self, state: State, index: int) -> None:
        gpu = state.recorder.settings.gpu
        self.name = gpu.name
        self.major, self.minor = gpu.capability
        self.multi_processor_count = gpu.multiprocessors
        self.max_threads_per_multi_processor = gpu.threads_per_multiprocessor
        self.total_memory = state.total_bytes
        self.max_threads_per_block = 1024
        self.warp_size = 32
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 << 10
        self.shared_memory_per_block_optin = _shared_optin(gpu.capability)
        self.shared_memory_per_multiprocessor = self.shared_memory_per_block_optin + 1024
        self.L2_cache_size = 0
        self.clock_rate = 0
        self.memory_clock_rate = 0
        self.memory_bus_width = 0
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.gcnArchName = ""
        self.pci_bus_id = index
        self.pci_device_id = 0
        self.pci_domain_id = 0
        self.uuid = f"00000000-0000-0000-0000-{index:012d}"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid})"
        )


def _shared_optin(capability: tuple[int, int]) -> int:
    """Shared memory that one block may have, in bytes: CUDA C++ Programming Guide, "Technical Specifications"."""
    known = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227}
    return known.get(capability, 99 if capability >= (8, 0) else 48) << 10


def cuda_version(torch: Version) -> str:
    """What `torch.version.cuda` is in the wheel of this torch version."""
    found = _CUDA_VERSIONS[0][1]
    for since, version in _CUDA_VERSIONS:
        if torch >= since:
            found = version
    return found


class _Cudart:
    """Stands in for the module `torch._C._cudart`."""

    class cudaError:  # noqa: N801 - CUDA's name
        """Error codes; calling it gives the code itself."""

        success = 0

        def __new__(cls, code: int = 0) -> Any:
            return code

    def __init__(self, state: State) -> None:
        self._state = state

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:  # noqa: N802
        """(free, total) in bytes."""
        return self._state.free_bytes(self._state.checked(device)), self._state.total_bytes

    def cudaGetErrorString(self, code: int) -> str:  # noqa: N802
        return f"CUDA error {code}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cuda"):
            return lambda *_, **__: 0
        raise AttributeError(name)


def install(state: State) -> None:
    """The devices."""
    recorder, cuda = state.recorder, state.cuda
    cudart = _Cudart(state)

    def set_device(device: int) -> None:
        if device >= 0:
            state.current = state.checked(int(device))

    def exchange(device: int) -> int:
        if device < 0:
            return -1
        before = state.current
        state.current = state.checked(int(device))
        return before

    def properties(device: Any = None) -> DeviceProperties:
        return DeviceProperties(state, state.checked(state.index(device)))

    state.answer(
        _cuda_getDeviceCount=lambda: state.count,
        _cuda_getDevice=lambda: state.current,
        _cuda_setDevice=set_device,
        _cuda_exchangeDevice=exchange,
        _cuda_maybeExchangeDevice=exchange,
        _cuda_init=lambda: None,
        _cuda_isInBadFork=lambda: False,
        _cuda_getArchFlags=lambda: _ARCHITECTURES,
        _cuda_getCompiledVersion=lambda: _compiled(cuda_version(recorder.settings.torch)),
        _cuda_canDeviceAccessPeer=lambda device, peer: device != peer,
        _cuda_ipc_collect=lambda: None,
        _cuda_sleep=lambda cycles: None,  # noqa: ARG005 - the GPU's time is not simulated
        _cuda_getCurrentBlasHandle=lambda: 0,
        _cuda_getCurrentSolverHandle=lambda: 0,
        _nccl_version=lambda: _NCCL_VERSION,
        _nccl_version_suffix=lambda: b"",
        _is_flash_attention_available=lambda: True,
        _cudart=cudart,
        _CudaDeviceProperties=DeviceProperties,
    )
    for name in ("_has_cuda", "_has_cudnn", "_has_magma"):
        recorder.patches.set(state.binding, name, True)
    for name, value in {
        "_initialized": True,
        "_cached_device_count": state.count,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "_get_device_properties": properties,
        "_CudaDeviceProperties": DeviceProperties,
        "_cudart": cudart,
        "_is_in_bad_fork": lambda: False,
        "has_magma": True,
    }.items():
        recorder.patches.set(cuda, name, value)
    _install_versions(state)
    _install_sync_mode(state)


def _install_versions(state: State) -> None:
    """What libraries read to decide whether they can use the GPU."""
    recorder, torch = state.recorder, state.torch
    version = cuda_version(recorder.settings.torch)
    if torch.version.cuda is None:
        recorder.patches.set(torch.version, "cuda", version)
        recorder.assume(f"torch.version.cuda is {version}, as in PyTorch's own wheel of this version")
    cudnn = torch.backends.cudnn
    recorder.patches.set(cudnn, "version", lambda: _CUDNN_VERSION)
    # The only user is RNNBase.flatten_parameters, which moves memory by its address: there is none.
    recorder.patches.set(cudnn, "is_acceptable", lambda tensor: False)  # noqa: ARG005


def _install_sync_mode(state: State) -> None:
    mode = [0]

    def set_mode(value: int) -> None:
        mode[0] = int(value)

    state.answer(_cuda_set_sync_debug_mode=set_mode, _cuda_get_sync_debug_mode=lambda: mode[0])


def _compiled(version: str) -> int:
    """CUDA_VERSION of cuda.h: 1000 * major + 10 * minor."""
    major, minor = version.split(".")
    return int(major) * 1000 + int(minor) * 10
