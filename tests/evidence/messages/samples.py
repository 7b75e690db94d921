"""One or more complete messages per family, as the tool prints them, with the bytes that they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.evidence.model import Kind
from tests.evidence.messages.sizes import gib, kib, mib

_HINT_SPLIT = (
    " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  "
    "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
)
_HINT_SPLIT_21 = (
    " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  "
    "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
)
_HINT_EXPANDABLE = (
    " If reserved but unallocated memory is large try setting {conf}=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  ({url})"
)
_OLD_URL = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables"
_NEW_URL = (
    "https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
)
HINT_22 = _HINT_EXPANDABLE.format(conf="PYTORCH_CUDA_ALLOC_CONF", url=_OLD_URL)
HINT_210 = _HINT_EXPANDABLE.format(conf="PYTORCH_ALLOC_CONF", url=_OLD_URL)
HINT_211 = _HINT_EXPANDABLE.format(conf="PYTORCH_CUDA_ALLOC_CONF", url=_NEW_URL)
HINT_HIP = _HINT_EXPANDABLE.format(conf="PYTORCH_HIP_ALLOC_CONF", url=_OLD_URL)
BOILERPLATE = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


@dataclass(frozen=True)
class Sample:
    """A message and what it says. `processes` are (pid, bytes or None where the value is not a size).

    `vendor` None: the message says nothing about a device, so that none is asked for.
    """

    id: str
    format: str
    text: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    vendor: str | None = "cuda"
    kind: Kind = Kind.DEVICE_OOM
    device: int | None = 0
    processes: tuple[tuple[int, int | None], ...] = ()
    artefacts: frozenset[str] = frozenset()


#: Messages of an allocator: sentences with several numbers.
ALLOCATOR = (
    Sample(
        "F1",
        "F1_cached",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 2; 11.17 GiB total capacity; "
        "10.46 GiB already allocated; 11.62 MiB free; 342.41 MiB cached)",
        {
            "requested_bytes": mib(20),
            "capacity_bytes": gib(11.17),
            "allocated_bytes": gib(10.46),
            "free_bytes": mib(11.62),
            "unallocated_bytes": mib(342.41),
        },
        device=2,
    ),
    Sample(
        "F1 with its C++ tail",
        "F1_cached",
        "RuntimeError: CUDA out of memory. Tried to allocate 1.53 GiB (GPU 0; 7.93 GiB total capacity; "
        "5.08 GiB already allocated; 1.04 GiB free; 1.12 GiB cached) (malloc at "
        "/pytorch/aten/src/THC/THCCachingAllocator.cpp:231)",
        {
            "requested_bytes": gib(1.53),
            "capacity_bytes": gib(7.93),
            "allocated_bytes": gib(5.08),
            "free_bytes": gib(1.04),
            "unallocated_bytes": gib(1.12),
        },
    ),
    Sample(
        "F2",
        "F2_reserved",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.92 GiB (GPU 0; 23.70 GiB total capacity; "
        "19.21 GiB already allocated; 1.88 GiB free; 20.05 GiB reserved in total by PyTorch)",
        {
            "requested_bytes": gib(2.92),
            "capacity_bytes": gib(23.70),
            "allocated_bytes": gib(19.21),
            "free_bytes": gib(1.88),
            "reserved_bytes": gib(20.05),
        },
    ),
    Sample(
        "F2 with a limit",
        "F2_reserved",
        "RuntimeError: CUDA out of memory. Tried to allocate 37.25 GiB (GPU 1; 23.68 GiB total capacity; "
        "192.29 MiB already allocated; 15.79 GiB free; 2.37 GiB allowed; 5.05 GiB reserved in total by PyTorch)",
        {
            "requested_bytes": gib(37.25),
            "capacity_bytes": gib(23.68),
            "allocated_bytes": mib(192.29),
            "free_bytes": gib(15.79),
            "allowed_bytes": gib(2.37),
            "reserved_bytes": gib(5.05),
        },
        device=1,
    ),
    Sample(
        "F3",
        "F3_reserved_hint",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 3; 79.15 GiB total "
        "capacity; 77.52 GiB already allocated; 4.69 MiB free; 78.07 GiB reserved in total by PyTorch)"
        + _HINT_SPLIT,
        {
            "requested_bytes": mib(96),
            "capacity_bytes": gib(79.15),
            "allocated_bytes": gib(77.52),
            "free_bytes": mib(4.69),
            "reserved_bytes": gib(78.07),
        },
        device=3,
    ),
    Sample(
        "F3 of an empty process on a full card",
        "F3_reserved_hint",
        "RuntimeError: CUDA out of memory. Tried to allocate 512.00 KiB (GPU 0; 4.00 GiB total capacity; 0 bytes "
        "already allocated; 0 bytes free; 0 bytes reserved in total by PyTorch)" + _HINT_SPLIT,
        {
            "requested_bytes": kib(512),
            "capacity_bytes": gib(4),
            "allocated_bytes": 0,
            "free_bytes": 0,
            "reserved_bytes": 0,
        },
    ),
    Sample(
        "F4",
        "F4_capacty",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.62 GiB. GPU 0 has a total capacty of "
        "47.54 GiB of which 1.31 GiB is free. Including non-PyTorch memory, this process has 46.20 GiB memory in "
        "use. Of the allocated memory 43.88 GiB is allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but "
        "unallocated." + _HINT_SPLIT_21,
        {
            "requested_bytes": gib(1.62),
            "capacity_bytes": gib(47.54),
            "free_bytes": gib(1.31),
            "process_bytes": gib(46.20),
            "allocated_bytes": gib(43.88),
            "unallocated_bytes": gib(1.90),
        },
    ),
    Sample(
        "F5 with neighbours",
        "F5_22_23",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 250.00 MiB. GPU 0 has a total capacity "
        "of 31.74 GiB of which 117.38 MiB is free. Process 81203 has 11.20 GiB memory in use. Process 90417 has "
        "612.00 MiB memory in use. Including non-PyTorch memory, this process has 19.78 GiB memory in use. Of the "
        "allocated memory 18.93 GiB is allocated by PyTorch, and 356.71 MiB is reserved by PyTorch but unallocated."
        + HINT_22,
        {
            "requested_bytes": mib(250),
            "capacity_bytes": gib(31.74),
            "free_bytes": mib(117.38),
            "other_process_bytes": gib(11.20) + mib(612),
            "process_bytes": gib(19.78),
            "allocated_bytes": gib(18.93),
            "unallocated_bytes": mib(356.71),
        },
        processes=((81203, gib(11.20)), (90417, mib(612))),
    ),
    Sample(
        "F5 without a GPU index",
        "F5_23_blank_gpu_index",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.73 GiB. GPU  has a total capacity of "
        "22.06 GiB of which 2.15 GiB is free. Including non-PyTorch memory, this process has 19.90 GiB memory in "
        "use. Of the allocated memory 17.44 GiB is allocated by PyTorch, and 2.17 GiB is reserved by PyTorch but "
        "unallocated." + HINT_22,
        {
            "requested_bytes": gib(3.73),
            "capacity_bytes": gib(22.06),
            "free_bytes": gib(2.15),
            "process_bytes": gib(19.90),
            "allocated_bytes": gib(17.44),
            "unallocated_bytes": gib(2.17),
        },
        device=None,
    ),
    Sample(
        "F6 with graph pools",
        "F6_torchOOM",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 784.00 MiB. GPU 5 has a total capacity of "
        "79.10 GiB of which 601.19 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in "
        "use. Of the allocated memory 74.62 GiB is allocated by PyTorch, with 11.37 GiB allocated in private pools "
        "(e.g., CUDA Graphs), and 2.41 GiB is reserved by PyTorch but unallocated." + HINT_22,
        {
            "requested_bytes": mib(784),
            "capacity_bytes": gib(79.10),
            "free_bytes": mib(601.19),
            "process_bytes": gib(78.50),
            "allocated_bytes": gib(74.62),
            "private_pool_bytes": gib(11.37),
            "unallocated_bytes": gib(2.41),
        },
        device=5,
    ),
    Sample(
        "F6 with a limit",
        "F6_torchOOM",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 996.00 MiB. GPU 0 has a total capacity of "
        "44.43 GiB of which 9.06 GiB is free. Process 2102129 has 17.54 GiB memory in use. Including non-PyTorch "
        "memory, this process has 17.81 GiB memory in use. 17.69 GiB allowed; Of the allocated memory 17.44 GiB is "
        "allocated by PyTorch, and 59.88 MiB is reserved by PyTorch but unallocated." + HINT_22,
        {
            "requested_bytes": mib(996),
            "capacity_bytes": gib(44.43),
            "free_bytes": gib(9.06),
            "other_process_bytes": gib(17.54),
            "process_bytes": gib(17.81),
            "allowed_bytes": gib(17.69),
            "allocated_bytes": gib(17.44),
            "unallocated_bytes": mib(59.88),
        },
        processes=((2102129, gib(17.54)),),
    ),
    Sample(
        "F6 under WSL2: 2**64 - 1 is not a size",
        "F6_torchOOM",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.13 GiB. GPU 0 has a total capacity of "
        "8.00 GiB of which 0 bytes is free. Process 9132 has 17179869184.00 GiB memory in use. Including "
        "non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 954.00 MiB "
        "is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated." + HINT_22,
        {
            "requested_bytes": gib(2.13),
            "capacity_bytes": gib(8),
            "free_bytes": 0,
            "allocated_bytes": mib(954),
            "unallocated_bytes": 0,
        },
        processes=((9132, None),),
        artefacts=frozenset({"nvml_2_64"}),
    ),
    Sample(
        "F6 in a container: 0 bytes in use",
        "F6_torchOOM",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.00 MiB. GPU 1 has a total capacity of "
        "139.81 GiB of which 7.94 MiB is free. Including non-PyTorch memory, this process has 0 bytes memory in "
        "use. Of the allocated memory 120.31 GiB is allocated by PyTorch, and 5.02 GiB is reserved by PyTorch but "
        "unallocated." + HINT_22,
        {
            "requested_bytes": mib(14),
            "capacity_bytes": gib(139.81),
            "free_bytes": mib(7.94),
            "process_bytes": 0,
            "allocated_bytes": gib(120.31),
            "unallocated_bytes": gib(5.02),
        },
        device=1,
        artefacts=frozenset({"process_0_bytes"}),
    ),
    Sample(
        "F7",
        "F7_210",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of "
        "14.56 GiB of which 713.81 MiB is free. Process 3970 has 13.86 GiB memory in use. Of the allocated memory "
        "12.60 GiB is allocated by PyTorch, and 1.13 GiB is reserved by PyTorch but unallocated." + HINT_210,
        {
            "requested_bytes": gib(1),
            "capacity_bytes": gib(14.56),
            "free_bytes": mib(713.81),
            "other_process_bytes": gib(13.86),
            "allocated_bytes": gib(12.60),
            "unallocated_bytes": gib(1.13),
        },
        processes=((3970, gib(13.86)),),
    ),
    Sample(
        "F8",
        "F8_211",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.43 GiB. GPU 7 has a total capacity of "
        "79.11 GiB of which 9.02 GiB is free. Including non-PyTorch memory, this process has 70.08 GiB memory in "
        "use. Of the allocated memory 66.70 GiB is allocated by PyTorch, and 2.18 GiB is reserved by PyTorch but "
        "unallocated." + HINT_211,
        {
            "requested_bytes": gib(11.43),
            "capacity_bytes": gib(79.11),
            "free_bytes": gib(9.02),
            "process_bytes": gib(70.08),
            "allocated_bytes": gib(66.70),
            "unallocated_bytes": gib(2.18),
        },
        device=7,
    ),
    Sample(
        "H1",
        "H1_hip",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 152.00 MiB. GPU 0 has a total capacity of "
        "63.98 GiB of which 42.88 GiB is free. 20.32 GiB allowed; Of the allocated memory 20.10 GiB is allocated by "
        "PyTorch, with 2.30 GiB allocated in private pools (e.g., HIP Graphs), and 205.60 MiB is reserved by "
        "PyTorch but unallocated." + HINT_HIP,
        {
            "requested_bytes": mib(152),
            "capacity_bytes": gib(63.98),
            "free_bytes": gib(42.88),
            "allowed_bytes": gib(20.32),
            "allocated_bytes": gib(20.10),
            "private_pool_bytes": gib(2.30),
            "unallocated_bytes": mib(205.60),
        },
        vendor="hip",
    ),
    Sample(
        "H1 of the older allocator",
        "H1_hip",
        "RuntimeError: HIP out of memory. Tried to allocate 256.00 MiB (GPU 0; 7.98 GiB total capacity; 5.36 GiB "
        "already allocated; 1.13 GiB free; 6.83 GiB reserved in total by PyTorch)",
        {
            "requested_bytes": mib(256),
            "capacity_bytes": gib(7.98),
            "allocated_bytes": gib(5.36),
            "free_bytes": gib(1.13),
            "reserved_bytes": gib(6.83),
        },
        vendor="hip",
    ),
    Sample(
        "X1",
        "X1_ipex",
        "RuntimeError: XPU out of memory. Tried to allocate 14.00 MiB (GPU 0; 15.56 GiB total capacity; 13.39 GiB "
        "already allocated; 13.86 GiB reserved in total by PyTorch)",
        {
            "requested_bytes": mib(14),
            "capacity_bytes": gib(15.56),
            "allocated_bytes": gib(13.39),
            "reserved_bytes": gib(13.86),
        },
        vendor="xpu",
    ),
    Sample(
        "X2 without free",
        "X2_xpu_nofree",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of "
        "15.56 GiB. Of the allocated memory 12.50 MiB is allocated by PyTorch, and 7.50 MiB is reserved by PyTorch "
        "but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
        {
            "requested_bytes": gib(4),
            "capacity_bytes": gib(15.56),
            "allocated_bytes": mib(12.50),
            "unallocated_bytes": mib(7.50),
        },
        vendor="xpu",
    ),
    Sample(
        "X2 with free",
        "X2_xpu_free",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 59.61 GiB. GPU 3 has a total capacity of "
        "63.98 GiB of which 12.01 GiB is free. Of the allocated memory 50.77 GiB is allocated by PyTorch, and "
        "688.12 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied "
        "cached memory.",
        {
            "requested_bytes": gib(59.61),
            "capacity_bytes": gib(63.98),
            "free_bytes": gib(12.01),
            "allocated_bytes": gib(50.77),
            "unallocated_bytes": mib(688.12),
        },
        vendor="xpu",
        device=3,
    ),
    Sample(
        "X2 of a nonsense size",
        "X2_xpu_nofree",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity "
        "of 47.98 GiB. Of the allocated memory 4.00 KiB is allocated by PyTorch, and 2.00 MiB is reserved by "
        "PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
        {
            "requested_bytes": 800_000_000 * 2**30,
            "capacity_bytes": gib(47.98),
            "allocated_bytes": kib(4),
            "unallocated_bytes": mib(2),
        },
        vendor="xpu",
    ),
    Sample(
        "M1",
        "M1_mps_GB",
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB, other allocations: 613.56 MB, max "
        "allowed: 18.13 GB). Tried to allocate 192.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 "
        "to disable upper limit for memory allocations (may cause system failure).",
        {
            "requested_bytes": mib(192),
            "allocated_bytes": gib(17.36),
            "other_allocations_bytes": mib(613.56),
            "allowed_bytes": gib(18.13),
        },
        vendor="mps",
        kind=Kind.UNIFIED_OOM,
        device=None,
    ),
    Sample(
        "M1 before other allocations were told",
        "M1_mps_GB",
        "RuntimeError: MPS backend out of memory (MPS allocated: 6.22 GB, max allowed: 6.80 GB). Tried to allocate "
        "2.00 GB on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory "
        "allocations (may cause system failure).",
        {"requested_bytes": gib(2), "allocated_bytes": gib(6.22), "allowed_bytes": gib(6.80)},
        vendor="mps",
        kind=Kind.UNIFIED_OOM,
        device=None,
    ),
    Sample(
        "M2",
        "M2_mps_GiB",
        "RuntimeError: MPS backend out of memory (MPS allocated: 42.28 GiB, other allocations: 720.00 KiB, max "
        "allowed: 42.43 GiB). Tried to allocate 256 bytes on shared pool. Use "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system "
        "failure).",
        {
            "requested_bytes": 256,
            "allocated_bytes": gib(42.28),
            "other_allocations_bytes": kib(720),
            "allowed_bytes": gib(42.43),
        },
        vendor="mps",
        kind=Kind.UNIFIED_OOM,
        device=None,
    ),
    Sample(
        "NPU",
        "NPU_fork",
        "RuntimeError: NPU out of memory. Tried to allocate 386.00 MiB (NPU 4; 61.27 GiB total capacity; 58.40 GiB "
        "already allocated; 57.12 GiB current active; 326.41 MiB free; 59.85 GiB reserved in total by PyTorch) If "
        "reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        {
            "requested_bytes": mib(386),
            "capacity_bytes": gib(61.27),
            "allocated_bytes": gib(58.40),
            "free_bytes": mib(326.41),
            "reserved_bytes": gib(59.85),
        },
        vendor="npu",
        device=4,
    ),
)

_ASYNC = (
    "torch.OutOfMemoryError: Allocation on device 2 would exceed allowed memory. (out of memory)\n"
    "Currently allocated     : 9.43 GiB\n"
    "Requested               : 640.00 MiB\n"
    "Device limit            : 11.59 GiB\n"
    "Free (according to CUDA): 7.12 MiB\n"
    "PyTorch limit (set by user-supplied memory fraction)\n"
    "                        : {limit}\n"
)
_ASYNC_NUMBERS = {
    "allocated_bytes": gib(9.43),
    "requested_bytes": mib(640),
    "capacity_bytes": gib(11.59),
    "free_bytes": mib(7.12),
}
#: Messages of several lines.
ASYNC = (
    Sample(
        "A1 without a limit",
        "A1_cudaMallocAsync",
        _ASYNC.format(limit="17179869184.00 GiB"),
        _ASYNC_NUMBERS,
        device=2,
    ),
    Sample(
        "A1 with a limit",
        "A1_cudaMallocAsync",
        _ASYNC.format(limit="9.85 GiB"),
        {**_ASYNC_NUMBERS, "allowed_bytes": gib(9.85)},
        device=2,
    ),
    Sample(
        "A1 with its columns collapsed by a paste",
        "A1_cudaMallocAsync",
        "\n".join(" ".join(row.split()) for row in _ASYNC.format(limit="9.85 GiB").splitlines()),
        {**_ASYNC_NUMBERS, "allowed_bytes": gib(9.85)},
        device=2,
    ),
    Sample(
        "A1 as a string literal",
        "A1_cudaMallocAsync",
        '{"exception_type": "torch.OutOfMemoryError", "exception_message": "'
        + _ASYNC.format(limit="9.85 GiB").removeprefix("torch.OutOfMemoryError: ").replace("\n", "\\n")
        + '"}',
        {**_ASYNC_NUMBERS, "allowed_bytes": gib(9.85)},
        device=2,
    ),
)

#: Messages without numbers, or with one.
SHORT = (
    Sample(
        "F0",
        "F0_thc",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
        kind=Kind.DEVICE_OOM_BARE,
        device=None,
    ),
    Sample(
        "F0 on stderr",
        "F0_thc",
        "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory",
        kind=Kind.DEVICE_OOM_BARE,
        device=None,
    ),
    Sample(
        "F9",
        "F9_1EB",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        kind=Kind.NOT_MEMORY,
        device=None,
    ),
    Sample(
        "E0",
        "E0_bare_cuda_error",
        "RuntimeError: CUDA error: out of memory\n" + BOILERPLATE,
        kind=Kind.DEVICE_OOM_BARE,
        device=None,
    ),
    Sample(
        "E0 of torch 2.9",
        "E0_bare_cuda_error",
        "torch.AcceleratorError: CUDA error: out of memory\n"
        "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
        "group__CUDART__TYPES.html for more information.\n" + BOILERPLATE,
        kind=Kind.DEVICE_OOM_BARE,
        device=None,
    ),
    Sample(
        "E1",
        "E1_cuda_driver_error",
        "RuntimeError: CUDA driver error: out of memory",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "E1 invalid argument",
        "E1_cuda_driver_error",
        "RuntimeError: CUDA driver error: invalid argument",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "NV 838",
        "NV_nvml_assert",
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838, '
        "please report a bug to PyTorch. ",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "NV 1319",
        "NV_nvml_assert",
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
        '"/pytorch/c10/cuda/CUDACachingAllocator.cpp":1319, please report a bug to PyTorch. ',
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "NV at nvmlInit",
        "NV_nvml_assert",
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at "
        '"../c10/cuda/CUDACachingAllocator.cpp":963, please report a bug to PyTorch. ',
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "NV at the device's handle",
        "NV_nvml_assert",
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id, &nvml_device) "
        'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830, please report a bug to PyTorch. ',
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "N1",
        "N1_nccl_warn",
        "node-3:4120:4388 [5] enqueue.cc:1061 NCCL WARN Cuda failure 'out of memory'",
        kind=Kind.NCCL_OOM,
        device=None,
    ),
    Sample(
        "N1 with a code and a time",
        "N1_nccl_warn",
        "[2025-03-04 10:11:12] node-3:4120:4388 [5] transport/nvls.cc:598 NCCL WARN Cuda failure 2 'out of memory'",
        kind=Kind.NCCL_OOM,
        device=None,
    ),
    Sample(
        "N1 calloc",
        "N1_nccl_warn",
        "node-3:4120:4388 [5] include/alloc.h:205 NCCL WARN Failed to CUDA calloc 6291456 bytes",
        {"requested_bytes": 6 * 2**20},
        kind=Kind.NCCL_OOM,
        device=None,
    ),
    Sample(
        "N1 calloc async",
        "N1_nccl_warn",
        "ncclUnhandledCudaError: Call to CUDA library failed.\nLast error:\nFailed to CUDA calloc async 26214400 bytes",
        {"requested_bytes": 25 * 2**20},
        kind=Kind.NCCL_OOM,
        device=None,
    ),
    Sample(
        "N1 of RCCL",
        "N1_nccl_warn",
        "node-1:77:901 [2] /long_pathname/src/include/alloc.h:244 NCCL WARN HIP failure 'out of memory'",
        vendor="hip",
        kind=Kind.NCCL_OOM,
        device=None,
    ),
    Sample(
        "C1",
        "C1_cudnn",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "C2",
        "C2_cublas_alloc",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "C3",
        "C3_cudnn_no_algo",
        "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
        kind=Kind.DISGUISED,
        device=None,
    ),
    Sample(
        "B1",
        "B1_bnb",
        "Error out of memory at line 380 in file /src/csrc/pythonInterface.c",
        kind=Kind.MANAGED_OOM,
        device=None,
    ),
    Sample(
        "V2",
        "V2_vllm_cumem",
        "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139",
        kind=Kind.DEVICE_OOM_BARE,
        device=None,
    ),
    Sample(
        "P1",
        "P1_cpu_allocator_linux",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 18874368000 bytes. Error code 12 (Cannot allocate memory)",
        {"requested_bytes": 18_000 * 2**20},
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "P1 of an older torch",
        "P1_cpu_allocator_linux",
        "RuntimeError: [enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 4831838208 bytes. Error code 12 (Cannot allocate memory)\n (no backtrace available)",
        {"requested_bytes": 4_608 * 2**20},
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "P2",
        "P2_cpu_allocator_windows",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried to "
        "allocate 3600000000 bytes.",
        {"requested_bytes": 3_600_000_000},
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "P2 with its advice",
        "P2_cpu_allocator_windows",
        "RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:73] data. DefaultCPUAllocator: not enough "
        "memory: you tried to allocate 805306368 bytes. Buy new RAM!",
        {"requested_bytes": 768 * 2**20},
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "K1 of torchrun",
        "K1_sigkill",
        "E0304 09:41:17.804000 4001 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
        "local_rank: 0 (pid: 5100) of binary: /opt/conda/bin/python",
        vendor=None,
        kind=Kind.KILLED,
        device=None,
    ),
    Sample(
        "K1 of DeepSpeed",
        "K1_sigkill",
        "[2025-03-04 09:03:40,133] [ERROR] [launch.py:321:sigkill_handler] ['/opt/conda/bin/python', '-u', "
        "'train.py', '--local_rank=7'] exits with return code = -9",
        vendor=None,
        kind=Kind.KILLED,
        device=None,
    ),
    Sample(
        "K1 of a DataLoader",
        "K1_sigkill",
        "RuntimeError: DataLoader worker (pid 3212) is killed by signal: Killed. ",
        vendor=None,
        kind=Kind.KILLED,
        device=None,
    ),
    Sample(
        "K2",
        "K2_slurm_oomkill",
        "slurmstepd: error: Detected 3 oom-kill event(s) in StepId=5544.0. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.",
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "K2 of an older Slurm",
        "K2_slurm_oomkill",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 87213.batch cgroup. Some of your processes may have "
        "been killed by the cgroup out-of-memory handler.",
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "K2 of a newer Slurm",
        "K2_slurm_oomkill",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.batch. Some of the step tasks have been OOM "
        "Killed.",
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "K3",
        "K3_ray_oom",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        vendor=None,
        kind=Kind.HOST_OOM,
        device=None,
    ),
    Sample(
        "S1",
        "S1_shm_bus_error",
        "RuntimeError: DataLoader worker (pid 341) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        vendor=None,
        kind=Kind.SHM,
        device=None,
    ),
    Sample(
        "T1",
        "T1_triton_smem",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 270336, Hardware limit: "
        "232448. Reducing block sizes or `num_stages` may help.",
        kind=Kind.NOT_MEMORY,
        device=None,
    ),
    Sample(
        "B1 that is none",
        "B1_bnb",
        "Error operation not supported at line 380 in file /src/csrc/pythonInterface.c",
        kind=Kind.NOT_MEMORY,
        device=None,
    ),
)

_TOLD = {"requested_bytes": mib(196), "capacity_bytes": gib(23.64), "free_bytes": mib(121.44)}
#: Messages that somebody translated: the numbers survive, the keywords do not.
TRANSLATED = (
    Sample(
        "L1 German",
        "L1_localised",
        "RuntimeError: CUDA: nicht genügend Speicher. Versuch, 196.00 MiB zu belegen. GPU 0 hat insgesamt 23.64 "
        "GiB, davon 121.44 MiB frei.",
        _TOLD,
    ),
    Sample(
        "L1 Spanish",
        "L1_localised",
        "Error: CUDA sin memoria. Se intentó asignar 196.00 MiB. GPU 0 tiene una capacidad total de 23.64 GiB, de los "
        "cuales 121.44 MiB están libres.",
        _TOLD,
    ),
    Sample(
        "L1 Chinese",
        "L1_localised",
        "错误：CUDA 内存不足。尝试分配 196.00 MiB。GPU 0 的总容量为 23.64 GiB，其中 121.44 MiB 可用。",
        _TOLD,
    ),
)

ALL = ALLOCATOR + ASYNC + SHORT + TRANSLATED


def ids(sample: Sample) -> str:
    """The id of a sample in pytest's output."""
    return sample.id
