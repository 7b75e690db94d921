"""Operators of PyTorch that have no kernel for shapes: small ones run for real on the CPU, which tells the shapes.

torch's own fallback runs them on the tensors' device, which is not there (torch/_subclasses/fake_tensor.py,
run_fallback_kernel). On zeros a few kernels come out differently than on data, in values, not in shapes.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.recorder.values import value_of

#: The most bytes of arguments that are made for it.
MOST_BYTES = 1 << 28


def install(recorder: Recorder) -> None:
    """Replaces torch's fallback for operators of PyTorch's own."""
    import torch._subclasses.fake_tensor as fakes

    if not hasattr(fakes, "run_fallback_kernel"):
        return

    def fallback(original: Any, mode: Any, func: Any, flat: Any, spec: Any, error: Any) -> Any:
        if func.namespace != "aten" or not _possible(flat, fakes.FakeTensor):
            return original(mode, func, flat, spec, error)
        return _on_cpu(mode, func, list(flat), spec, error)

    recorder.patches.wrap(fakes, "run_fallback_kernel", fallback)


def _possible(flat: Any, fake: Any) -> bool:
    import torch

    if not any(_is_cuda(one, fake) for one in flat):
        return False
    tensors = [one for one in flat if isinstance(one, torch.Tensor)]
    plain = all(one.layout is torch.strided for one in tensors)
    return plain and sum(one.numel() * one.element_size() for one in tensors) <= MOST_BYTES


def _is_cuda(one: Any, fake: Any) -> bool:
    import torch

    if isinstance(one, fake):
        return bool(one.fake_device.type == "cuda")
    return isinstance(one, torch.device) and one.type == "cuda"


def _on_cpu(mode: Any, func: Any, flat: list[Any], spec: Any, error: Any) -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _pytree as trees
    from torch.utils._mode_utils import no_dispatch

    if torch.Tag.inplace_view in func.tags:
        raise error
    devices = [one.fake_device for one in flat if _is_cuda(one, FakeTensor) and isinstance(one, FakeTensor)]
    device = devices[0] if devices else next(one for one in flat if _is_cuda(one, FakeTensor))
    given: dict[int, Any] = {}
    with no_dispatch():
        for place, one in enumerate(flat):
            if isinstance(one, FakeTensor):
                value = value_of(one)
                real = torch.zeros_like(one, device="cpu") if value is None else value.clone()
                given[id(real)] = one
                flat[place] = real
            elif isinstance(one, torch.device):
                flat[place] = torch.device("cpu")
        args, kwargs = trees.tree_unflatten(flat, spec)
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            raise error from None
        storages = {one.untyped_storage()._cdata for one in flat if isinstance(one, torch.Tensor)}  # noqa: SLF001

    def back(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        if id(one) in given:
            return given[id(one)]
        if one.layout is not torch.strided or one.is_nested:
            raise error
        if one.untyped_storage()._cdata in storages:  # noqa: SLF001
            raise error
        with no_dispatch():
            meta = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
        return FakeTensor(mode, meta, device)

    return trees.tree_map(back, result)
