"""Fake tensors through `pickle`: a queue between processes, a cache of the script's own, `copy.copy`."""

from __future__ import annotations

from typing import Any

from oomph.errors import InputError
from oomph.tracing.libraries.fakes import host_tensor
from oomph.tracing.recorder.recorder import Recorder, current
from oomph.tracing.recorder.values import attach, value_of


def install(recorder: Recorder) -> None:
    """A fake tensor is pickled without its data (there are none) and comes back as a new one, with memory of its own
    on its device, as a real one does."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    parameter = torch.nn.Parameter

    def reduce(tensor: Any, protocol: int) -> Any:
        if type(tensor) is not FakeTensor or tensor.layout is not torch.strided:
            return torch.Tensor.__reduce_ex__(tensor, protocol)
        facts = (tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device))
        value = value_of(tensor)
        if value is not None:
            value = value.detach().clone()  # a view would bring all that it is a view of
        rest = (tensor.requires_grad, isinstance(tensor, parameter), value)
        return rebuild, (*facts, *rest)

    def shallow(tensor: Any) -> Any:
        made = tensor.detach()
        if isinstance(tensor, parameter):
            return parameter(made, tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)

    recorder.patches.set(FakeTensor, "__reduce_ex__", reduce)
    recorder.patches.set(FakeTensor, "__copy__", shallow)


def rebuild(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: Any,
    device: str,
    requires_grad: bool,
    parameter: bool,
    value: Any,
) -> Any:
    """The tensor that was pickled; memory for it is taken.

    Raises:
        InputError: no trace is running, so there is no simulated GPU to put it on.
    """
    import torch

    recorder = current()
    if recorder is None:
        raise InputError(
            "this file or message was pickled by a traced script, and its tensors hold no data: they can be loaded in "
            "the same trace only"
        )
    if device == "cpu":
        # One that is real would take its size in memory of this machine.
        reach = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        flat = host_tensor(recorder, (reach if 0 not in shape else 0,), dtype)
        made = flat.as_strided(shape, stride).detach()
    else:
        made = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if value is not None:
        attach(made, value)
    return torch.nn.Parameter(made, requires_grad) if parameter else made.requires_grad_(requires_grad)
