"""Parameters are fake from their first moment on, and moving a module keeps them the same objects.

A model of any size then costs no memory of the host: what `nn.Linear` makes with `torch.empty` is never touched,
because its initialisation already meets a fake parameter. Values of parameters decide nothing that a program allocates.

Where a script stops before a model's first forward or an optimizer's first step, which else tell parameters, they are
looked for.

Real code moves a parameter by `param.data = moved`; optimizers that hold it go on holding it. On a fake one that
changes everything but the device that it believes to be on, which is set beside it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

from oomph.tracing.recorder import categories
from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder, fake_mode: Any) -> None:
    """Replaces `Parameter.__new__` and `Module._apply`."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils.weak import WeakTensorKeyDictionary

    moved = _Modules()

    def new(original: Any, cls: Any, data: Any = None, requires_grad: bool = True, **kwargs: Any) -> Any:
        if type(data) in (torch.Tensor, torch.nn.Parameter) and data.device.type == "cpu":
            if recorder.suspensions == 0:
                data = fake_mode.from_tensor(data.detach())
        return original(cls, data, requires_grad, **kwargs)

    recorder.patches.set(torch.nn.Parameter, "__new__", _static(new, torch.nn.Parameter.__new__))

    gone = WeakTensorKeyDictionary()

    def apply(original: Any, module: Any, fn: Any, recurse: bool = True) -> Any:
        if recorder.suspensions:
            return original(module, fn, recurse)
        moved.add(module)
        if recurse:
            for child in module.children():
                child._apply(fn)  # noqa: SLF001 - torch's own recursion
        for key, parameter in module._parameters.items():  # noqa: SLF001
            if parameter is None:
                continue
            if not isinstance(parameter, FakeTensor):
                return original(module, fn, False)
            module._parameters[key] = move(parameter, fn, gone)  # noqa: SLF001
        for key, buffer in module._buffers.items():  # noqa: SLF001
            if buffer is not None:
                module._buffers[key] = fn(buffer)  # noqa: SLF001
        return module

    recorder.patches.wrap(torch.nn.Module, "_apply", apply)

    def tell() -> None:
        for module in moved:
            categories.parameters(recorder, torch.nn.Module.named_parameters(module))
            categories.parameters(recorder, torch.nn.Module.named_buffers(module))
        categories.parameters(recorder, ((None, parameter) for parameter in _every_parameter()))

    recorder.on_stop.append(tell)


def _every_parameter() -> list[Any]:
    """All that there are. Weak references would do, but torch swaps no tensor to which there is one."""
    import torch

    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    # A fake one is of FakeTensor's class; Parameter knows those that are parameters all the same.
    return [each for each in tensors if isinstance(each, torch.nn.Parameter)]


class _Modules:
    """Modules in the order in which they came, an outer one before those in it; none is kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[Any]] = {}

    def add(self, module: Any) -> None:
        known = self._known.get(id(module))
        if known is None or known() is None:
            self._known[id(module)] = weakref.ref(module)

    def __iter__(self) -> Iterator[Any]:
        return (module for module in [known() for known in self._known.values()] if module is not None)


def _static(function: Any, original: Any) -> Any:
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return function(original, cls, *args, **kwargs)

    return staticmethod(new)


def move(parameter: Any, fn: Any, gone: Any) -> Any:
    """Gives a fake parameter the data, and the device, of `fn(parameter)`; its gradient likewise. It is returned, or
    what takes its place where it cannot stay: on `meta` a tensor is a plain one. `gone` remembers those, so that tied
    parameters stay tied."""
    import torch

    with torch.no_grad():
        moved = fn(parameter)
    if moved is parameter:
        return parameter
    if moved.device.type == "meta":
        if parameter not in gone:
            plain = torch.empty_strided(moved.shape, moved.stride(), dtype=moved.dtype, device="meta")
            gone[parameter] = torch.nn.Parameter(plain, parameter.requires_grad)
        return gone[parameter]
    gradient = parameter.grad
    parameter.data = moved.data
    parameter.fake_device = moved.fake_device
    if gradient is not None:
        with torch.no_grad():
            changed = fn(gradient)
        parameter.grad = None
        parameter.grad = changed.requires_grad_(gradient.requires_grad)
    return parameter
