"""`x[:, -1, :]`: torch 2.8 and older recorded each ":" as a slice of its own, torch 2.9 and newer pass over it.

In backward each recorded slice allocates a gradient of the whole tensor. Evidence: real snapshots of 2.6 and 2.7 (a
full gradient of the logits more than under 2.13); the graphs of `grad_fn` that torch 2.4.1, 2.8.0 (slice, select,
slice), 2.9.0 and 2.13.0 (select alone) record; aten/src/ATen/TensorIndexing.h, applySlice.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: The first version that passes over them.
_PASSED_OVER = (2, 9)
_WHOLE = slice(None)


def install(recorder: Recorder) -> None:
    """Records full slices where the trace speaks for an old torch."""
    if recorder.settings.torch >= _PASSED_OVER:
        return
    import torch

    def getitem(original: Any, tensor: Any, index: Any) -> Any:
        if type(index) is not tuple or _WHOLE not in [one for one in index if type(one) is slice]:
            return original(tensor, index)
        if not tensor.requires_grad or not all(_understood(one) for one in index):
            return original(tensor, index)
        return _one_by_one(original, tensor, index)

    recorder.patches.wrap(torch.Tensor, "__getitem__", getitem)


def _understood(one: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return bool(one.dim())
    return type(one) in (int, slice) or one is None or one is Ellipsis


def _one_by_one(original: Any, tensor: Any, index: tuple[Any, ...]) -> Any:
    """As torch applied an index then: from left to right, and tensors at the end, all at once."""
    import torch

    place = 0
    entries: list[Any] = []
    for number, one in enumerate(index):
        if type(one) is int:
            tensor = tensor.select(place, one)
            continue
        skipped = 1
        if one is Ellipsis:
            skipped = tensor.dim() - place - sum(_dimensions(later) for later in index[number + 1 :])
        elif isinstance(one, torch.Tensor):
            skipped = _dimensions(one)
        elif one is None:
            tensor = tensor.unsqueeze(place)
        elif one == _WHOLE:
            tensor = torch.ops.aten.slice.Tensor(tensor, place, 0, tensor.shape[place])
        else:
            tensor = original(tensor, (_WHOLE,) * place + (one,))
        entries += [one] if isinstance(one, torch.Tensor) else [_WHOLE] * skipped
        place += skipped
    return original(tensor, tuple(entries)) if any(one is not _WHOLE for one in entries) else tensor


def _dimensions(one: Any) -> int:
    """How many dimensions of the tensor an entry takes: a mask takes its own."""
    if one is None:
        return 0
    return one.dim() if getattr(one, "dtype", None) in _masks() else 1


def _masks() -> tuple[Any, ...]:
    import torch

    return (torch.bool, torch.uint8)
