"""accelerate rebuilds parameters by the class of the one that was there, which is torch's fake tensor in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """`type(parameter)(value, requires_grad=...)` makes a parameter of the value."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    original = FakeTensor.__new__

    def new(cls: Any, first: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(first, torch.Tensor):
            return torch.nn.Parameter(first, requires_grad=kwargs.get("requires_grad", True))
        return original(cls, first, *args, **kwargs) if first is not None else original(cls, *args, **kwargs)

    recorder.patches.set(FakeTensor, "__new__", staticmethod(new))
