"""Triton: a script that defines kernels runs until it starts one; what that takes is not known, and a sentence says so.

Where triton is installed it is imported as it is. Where it is not (CPU builds of PyTorch do without) a stand-in takes
its decorators, so that a file that holds kernels beside other things can be imported.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError
from oomph.tracing.libraries.refusals import imported_by_script

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_STANDS_IN = frozenset(
    {"triton", "triton.language", "triton.language.extra", "triton.testing", "triton.runtime"}
)


class KernelStartedError(UsageError):
    """A Triton kernel was started."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the script starts the Triton kernel {name}, which is compiled for a GPU while it runs: a trace can only "
            "run code that calls PyTorch's own operators, so switch the kernel off in the script"
        )


def install(recorder: Recorder) -> None:
    """Kernels of the installed triton, or of its stand-in, raise KernelStartedError when they are started."""

    def runtime(module: ModuleType) -> None:
        def run(_original: Any, kernel: Any, *_args: Any, **_kwargs: Any) -> Any:
            raise KernelStartedError(str(getattr(kernel, "__name__", "")))

        recorder.patches.wrap(module.JITFunction, "run", run)

    recorder.patches.when_imported("triton.runtime.jit", runtime)
    if importlib.machinery.PathFinder.find_spec("triton") is not None:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        sys.meta_path.remove(finder)
        for name in _STANDS_IN:
            if isinstance(sys.modules.get(name), _StandIn):
                del sys.modules[name]

    recorder.patches.when_undone(undo)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The stand-in, for the script; libraries find that there is no triton."""
        if fullname in _STANDS_IN and imported_by_script():
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one: names are made when they are asked for."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is to be run."""


class _StandIn(ModuleType):
    """Has every name: decorators that leave a kernel behind, arithmetic for grids, and types without meaning."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _NAMES.get(name) or _Name(name)


class _Kernel:
    """What a decorated function is: it can be indexed by a grid, and not be started."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)

    def __getitem__(self, _grid: object) -> _Kernel:
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise KernelStartedError(str(getattr(self, "__name__", "")))


class _Name:
    """A type or function of triton's that only kernels use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(f"{self._name}.{name}")

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return self


def _decorate(*args: Any, **_kwargs: Any) -> Any:
    """`@triton.jit`, `@triton.jit(...)`, `@triton.autotune(...)` and the like."""
    if args and callable(args[0]) and not isinstance(args[0], _Name):
        return args[0] if isinstance(args[0], _Kernel) else _Kernel(args[0])
    return _decorate


def _next_power_of_2(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


_NAMES: dict[str, Any] = {
    "jit": _decorate,
    "autotune": _decorate,
    "heuristics": _decorate,
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": _next_power_of_2,
}
