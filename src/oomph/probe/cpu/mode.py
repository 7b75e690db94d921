"""The dispatch mode through which every operator of the process passes, so that no allocation is missed.

`make_mode` builds the class when it is first wanted, because its base class is torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from oomph.probe.cpu import accumulate
from oomph.probe.cpu.storages import Storages


@cache
def _mode_class() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    tensor_class = torch.Tensor
    plain = _plainness()
    get_mode = torch._C._get_dispatch_mode  # noqa: SLF001 - what FakeTensorMode itself asks
    keys = torch._C._TorchDispatchModeKey  # noqa: SLF001
    faking = tuple(getattr(keys, name) for name in ("FAKE", "FUNCTIONAL", "PROXY") if hasattr(keys, name))
    written = accumulate.operators()
    nothing: dict[str, Any] = {}

    def faked() -> bool:
        return any([get_mode(key) is not None for key in faking])

    class CountingMode(TorchDispatchMode):  # type: ignore[misc]
        """Counts the storages that operators get and give. `closed`: passes everything through."""

        def __init__(self, storages: Storages) -> None:
            super().__init__()
            self.storages = storages
            self.closed = False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = nothing if kwargs is None else kwargs
            for one in types:
                if not plain(one):
                    # A wrapper: its own code runs next, and what that does passes here again. Where tensors are faked
                    # or traced, whoever does that is next.
                    return func(*args, **kwargs) if faked() else NotImplemented
            if self.closed:
                return func(*args, **kwargs)
            self.look(args)
            if kwargs:
                self.look(kwargs.values())
            if func in written and accumulate.in_place(func, args, kwargs):
                result = func(*args, **kwargs)
                self.storages.take_over(result.untyped_storage(), args[0].untyped_storage())
                return result
            result = func(*args, **kwargs)
            if isinstance(result, tensor_class):
                self.count(result)
            elif isinstance(result, (tuple, list)):
                self.look(result)
            return result

        def look(self, values: Any) -> None:
            """Counts the tensors among these."""
            for value in values:
                if isinstance(value, tensor_class):
                    self.count(value)
                elif isinstance(value, (list, tuple)):
                    self.look(value)

        def count(self, tensor: Any) -> None:
            """Counts the storage of a tensor."""
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                # Sparse and opaque tensors have none; what they are made of was counted when it was made.
                return
            self.storages.see(storage)

    return CountingMode


def _plainness() -> Callable[[type], bool]:
    import torch

    disabled = torch._C._disabled_torch_dispatch_impl  # noqa: SLF001 - what marks a class without own dispatch
    known: dict[type, bool] = {}

    def plain(kind: type) -> bool:
        found = known.get(kind)
        if found is None:
            found = known[kind] = getattr(kind, "__torch_dispatch__", None) is disabled
        return found

    return plain


def is_plain(kind: type) -> bool:
    """Whether tensors of this class are what they seem: no wrappers, no fakes."""
    return _plainness()(kind)


def make_mode(storages: Storages) -> Any:
    """A mode that counts into these storages."""
    return _mode_class()(storages)


def push(mode: Any) -> None:
    """Puts the mode below all others of this thread: who entered before may leave before."""
    from torch.utils._python_dispatch import _pop_mode, _push_mode

    others = []
    while _depth():
        others.append(_pop_mode())
    mode.__enter__()
    for other in reversed(others):
        _push_mode(other)


def remove(mode: Any) -> bool:
    """Takes the mode away, wherever in this thread's stack it is; False where it is not there."""
    from torch.utils._python_dispatch import _pop_mode, _push_mode

    others = []
    found = False
    while _depth() and not found:
        top = _pop_mode()
        if top is mode:
            found = True
            _push_mode(mode)
            mode.__exit__(None, None, None)
        else:
            others.append(top)
    for other in reversed(others):
        _push_mode(other)
    return found


def _depth() -> int:
    import torch

    return int(torch._C._len_torch_dispatch_stack())  # noqa: SLF001
