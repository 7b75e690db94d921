"""`x[:, -1, :]`: torch 2.7 and older recorded each ":" as a slice of its own, torch 2.13 passes over it.

In backward each recorded slice allocates a gradient of the whole tensor. Evidence: real snapshots of 2.6 and 2.7 (a
full gradient of the logits more than under 2.13); aten/src/ATen/TensorIndexing.h, applySlice, compares the end of the
slice with the length, and ":" ended at the largest number. Of 2.8 to 2.12 it is not known; they are taken to do as 2.13
does.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

_PASSED_OVER = (2, 8)
_WHOLE = slice(None)


def install(recorder: Recorder) -> None:
    """Records full slices where the trace speaks for an old torch."""
    if recorder.settings.torch >= _PASSED_OVER:
        return
    import torch

    def getitem(original: Any, tensor: Any, index: Any) -> Any:
        if type(index) is not tuple or _WHOLE not in [one for one in index if type(one) is slice]:
            return original(tensor, index)
        if not all(type(one) in (int, slice) for one in index):
            return original(tensor, index)
        return _one_by_one(original, tensor, index)

    recorder.patches.wrap(torch.Tensor, "__getitem__", getitem)


def _one_by_one(original: Any, tensor: Any, index: tuple[Any, ...]) -> Any:
    import torch

    place = 0
    for one in index:
        if type(one) is int:
            tensor = tensor.select(place, one)
        elif one == _WHOLE:
            tensor = torch.ops.aten.slice.Tensor(tensor, place, 0, tensor.shape[place])
            place += 1
        else:
            tensor = original(tensor, (_WHOLE,) * place + (one,))
            place += 1
    return tensor
