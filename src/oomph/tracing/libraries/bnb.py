"""bitsandbytes: its own Python code decides what is allocated, and its native kernels do nothing.

Every allocation of bitsandbytes is made in Python (packed weights, absolute maxima, their second quantisation, the
dequantised weight of a matrix product, states of 8-bit optimizers); the native library only fills what it is given. So
the installed version's Python kernels for CUDA run on fake tensors, with a library whose functions do nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries.fakes import is_fake, unseen_device_tensor
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Modules with kernels: those for every device first, CUDA's own replace them.
_BACKENDS = ("bitsandbytes.backends.default.ops", "bitsandbytes.backends.cuda.ops")
_STREAM = "_cuda_getCurrentRawStream"


def install(recorder: Recorder) -> None:
    """Native code is out of reach from the first import of bitsandbytes on."""
    patches = recorder.patches

    def no_library(module: ModuleType) -> None:
        # Else the CUDA library is looked for, which is not there, and the import complains at length.
        patches.set(module, "get_cuda_specs", lambda: None)

    def native(module: ModuleType) -> None:
        import torch

        patches.set(module, "lib", _Nothing())
        if not hasattr(torch._C, _STREAM):  # noqa: SLF001 - bitsandbytes asks for it by this name
            patches.set(torch._C, _STREAM, lambda _device: 0)  # noqa: SLF001

    def functional(module: ModuleType) -> None:
        patches.set(module, "lib", _Nothing())
        patches.set(module, "get_paged", _Paged(recorder).get)

    def modules(module: ModuleType) -> None:
        for name in ("Params4bit", "Int8Params"):
            if hasattr(module, name):
                _fake_parameters(recorder, getattr(module, name))

    patches.when_imported("bitsandbytes.cuda_specs", no_library)
    patches.when_imported("bitsandbytes.cextension", native)
    patches.when_imported("bitsandbytes.functional", functional)
    patches.when_imported("bitsandbytes.nn.modules", modules)
    patches.when_imported("bitsandbytes", lambda _module: _kernels(recorder))


class _Nothing:
    """A library whose every function does nothing and returns 0."""

    def __getattr__(self, name: str) -> _Function:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Function()

    __getitem__ = __getattr__


class _Function:
    argtypes: Any = None
    restype: Any = None

    def __call__(self, *_args: Any) -> int:
        return 0


class _Paged:
    """Optimizer states in CUDA's managed memory, which PyTorch's allocator does not see."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._bytes = 0
        recorder.patches.when_undone(self._say)

    def get(self, *shape: int, dtype: Any = None, device: Any = None) -> Any:
        """In place of `get_paged`: a tensor whose memory is not recorded."""
        import torch

        dtype = dtype or torch.float32
        device = device or torch.device("cuda", 0)
        tensor = unseen_device_tensor(self._recorder, shape, dtype, device)
        tensor.is_paged = True
        tensor.page_deviceid = device.index
        self._bytes += tensor.numel() * tensor.element_size()
        return tensor

    def _say(self) -> None:
        if self._bytes:
            self._recorder.note(
                f"a paged optimizer holds {format_bytes(self._bytes)} of states in CUDA managed memory: outside "
                "PyTorch's allocator and not in the peaks here, on the card as far as there is room"
            )


def _kernels(recorder: Recorder) -> None:
    """Operators of bitsandbytes on fake CUDA tensors run the Python code of its CUDA backend."""
    import torch

    kernels: dict[str, Callable[..., Any]] = {}

    def register(name: str, _device: str, function: Any = None) -> Any:
        def keep(one: Callable[..., Any]) -> Callable[..., Any]:
            kernels[name.partition("::")[2]] = one
            return one

        return keep if function is None else keep(function)

    if importlib.util.find_spec("bitsandbytes._ops") is None:
        return  # Releases before 0.46 call the native library from `functional`.
    ops: Any = importlib.import_module("bitsandbytes._ops")
    before = ops.register_kernel
    ops.register_kernel = register
    try:
        for name in _BACKENDS:
            _copy(name)
    finally:
        ops.register_kernel = before
    library = torch.library.Library("bitsandbytes", "IMPL")
    for name, kernel in kernels.items():
        library.impl(name, _without_gradients(recorder, name, kernel), "AutogradCUDA")
    recorder.patches.when_undone(library._destroy)  # noqa: SLF001 - the only way to take them back


def _copy(name: str) -> None:
    """Runs a module of bitsandbytes once more, beside its own, so that nothing of its registrations changes."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return
    if found is None or found.origin is None:
        return
    package = name.rpartition(".")[0]
    spec = importlib.util.spec_from_file_location(f"{package}._oomph_ops", found.origin)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _without_gradients(recorder: Recorder, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The operators have no derivatives of their own; bitsandbytes writes them around."""
    import torch

    def run(*args: Any, **kwargs: Any) -> Any:
        if name == "int8_vectorwise_quant" and (kwargs.get("threshold") or args[1:2] > (0.0,)):
            recorder.assume(
                "LLM.int8() finds no outlier columns: each would be computed in 16 bits beside the rest"
            )
        with torch.no_grad():
            return kernel(*args, **kwargs)

    return run


def _fake_parameters(recorder: Recorder, original: Any) -> None:
    """Quantised parameters of fake data are fake tensors and instances of bitsandbytes' class."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def data(self: Any) -> Any:
        return torch.Tensor.data.__get__(self)

    def set_data(self: Any, value: Any) -> None:
        torch.Tensor.data.__set__(self, value)
        if is_fake(value):
            self.fake_device = value.fake_device

    both = type(original)(original.__name__, (original, FakeTensor), {"data": property(data, set_data)})
    make = torch.Tensor._make_subclass  # noqa: SLF001 - what bitsandbytes calls

    def make_subclass(cls: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if cls in (original, both) and is_fake(tensor):
            copy = tensor.detach()
            copy.__class__ = both
            copy.requires_grad_(bool(args[0]) if args else bool(kwargs.get("require_grad", False)))
            return copy
        return make(cls, tensor, *args, **kwargs)

    recorder.patches.set(torch.Tensor, "_make_subclass", staticmethod(make_subclass))
