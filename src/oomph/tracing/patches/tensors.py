"""What Python code does with a tensor's values: lists, numpy arrays, printing; and making tensors from Python data."""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.dynamic import NUMBERS_ARE_ONE, stand_in
from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.recorder.values import value_of


def install(recorder: Recorder) -> None:
    """Gives fake tensors answers where torch has none."""
    _reading(recorder)
    _making(recorder)


def _reading(recorder: Recorder) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def real(tensor: Any) -> Any:
        value = value_of(tensor)
        if value is not None:
            return value
        recorder.assume(NUMBERS_ARE_ONE)
        return torch.full((), stand_in(tensor), dtype=tensor.dtype).expand(tensor.shape)

    def numpy(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return original(tensor, *args, **kwargs)
        if tensor.device.type == "cuda":
            raise TypeError(
                f"can't convert {tensor.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return original(real(tensor).clone())

    def tolist(original: Any, tensor: Any) -> Any:
        return original(real(tensor) if isinstance(tensor, FakeTensor) else tensor)

    def formatted(original: Any, tensor: Any, spec: str) -> str:
        if isinstance(tensor, FakeTensor):
            if tensor.dim() == 0:
                return format(tensor.item(), spec)
            return object.__format__(tensor, spec)
        return str(original(tensor, spec))

    def array(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensor, FakeTensor):
            result = tensor.numpy()
            return result.astype(args[0]) if args and args[0] is not None else result
        return original(tensor, *args, **kwargs)

    for name, wrapper in (
        ("numpy", numpy),
        ("tolist", tolist),
        ("__format__", formatted),
        ("__array__", array),
    ):
        recorder.patches.wrap(torch.Tensor, name, wrapper)
    if "tolist" in vars(FakeTensor):  # in torch 2.4 one of its own, for compilers
        recorder.patches.wrap(FakeTensor, "tolist", lambda _original, tensor: torch.Tensor.tolist(tensor))
    recorder.patches.wrap(torch.Tensor, "pin_memory", lambda _original, tensor, *_args, **_kwargs: tensor)


def _making(recorder: Recorder) -> None:
    """`torch.tensor(data, device="cuda")` makes a CPU tensor and copies it; the copy is what counts."""
    import torch

    asking = False

    def on_cuda(device: Any) -> bool:
        nonlocal asking
        if device is None:
            asking = True
            try:
                device = torch.get_default_device()
            finally:
                asking = False
        return torch.device(device).type == "cuda"

    def make(original: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        if asking:  # torch makes a tensor to see what its default device is
            return original(data, *args, **kwargs)
        data = _numbers(data) if isinstance(data, list | tuple) else data
        device = kwargs.pop("device", None)
        requires_grad = kwargs.pop("requires_grad", False)
        kwargs.pop("pin_memory", None)
        if isinstance(data, torch.Tensor) or not on_cuda(device):
            if device is not None:
                kwargs["device"] = device
            if requires_grad:
                kwargs["requires_grad"] = True
            return original(data, *args, **kwargs)
        made = original(data, *args, device="cpu", **kwargs).to(device or torch.get_default_device())
        return made.requires_grad_() if requires_grad else made

    for name in ("tensor", "as_tensor", "asarray"):
        recorder.patches.wrap(torch, name, make)


def _numbers(data: Any) -> Any:
    """Nested lists with numbers in place of tensors of one element, which torch would read in C++."""
    import torch

    if any(isinstance(one, torch.Tensor | list | tuple) for one in data):
        return [
            one.item()
            if isinstance(one, torch.Tensor) and one.dim() == 0
            else _numbers(one)
            if isinstance(one, list | tuple)
            else one
            for one in data
        ]
    return data
