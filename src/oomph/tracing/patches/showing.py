"""Printed tensors: as PyTorch prints them, with their values where they are known and `...` where only a GPU knows."""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.recorder.values import value_of

#: What a printed tensor begins with, under which its further lines are aligned.
_START = "tensor("


def install(recorder: Recorder) -> None:
    """`repr` of a fake tensor reads like that of a real one (torch/_tensor_str.py)."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def shown(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> str:
        if type(tensor) is not FakeTensor or tensor.layout is not torch.strided or args or kwargs:
            return str(original(tensor, *args, **kwargs))
        with recorder.suspended():
            text = _text(torch, tensor)
        return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text

    recorder.patches.wrap(torch.Tensor, "__repr__", shown)


def _text(torch: Any, tensor: Any) -> str:
    printing = torch._tensor_str  # noqa: SLF001 - how PyTorch itself prints
    value = value_of(tensor)
    device, default = tensor.fake_device, torch.get_default_dtype()
    ends = []
    if device.type != torch._C._get_default_device() or (  # noqa: SLF001 - what PyTorch's own printing asks
        device.type == "cuda" and (device.index or 0) != torch.cuda.current_device()
    ):
        ends.append(f"device='{tensor.device}'")
    empty = not tensor.numel()
    if (value is None and not empty) or (empty and tensor.dim() != 1):
        ends.append(f"size={tuple(tensor.shape)}")
    plain: tuple[Any, ...] = (default,)
    if value is not None and not empty:
        complex_default = torch.cdouble if default is torch.double else torch.cfloat
        plain = (default, complex_default, torch.int64, torch.bool)
    if tensor.dtype not in plain:
        ends.append(f"dtype={tensor.dtype}")
    ends += _autograd(tensor)
    content = "[]" if empty else "..."
    if value is not None and not empty:
        content = printing._tensor_str(value.detach(), len(_START))  # noqa: SLF001
    return str(printing._add_suffixes(_START + content, ends, len(_START), False))  # noqa: SLF001


def _autograd(tensor: Any) -> list[str]:
    try:
        function = tensor.grad_fn
    except RuntimeError:  # a view that was changed in place where it must not be
        return ["grad_fn=<Invalid>"]
    if function is not None:
        name = type(function).__name__
        if name == "CppFunction":
            name = function.name().rsplit("::", 1)[-1]
        return [f"grad_fn=<{name}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []
