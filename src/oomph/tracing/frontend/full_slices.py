"""`x[:, -1, :]`: torch 2.8 and older recorded each ":" as a slice of its own, newer ones pass over it.

In backward each recorded slice allocates a gradient of the whole tensor. Evidence: real snapshots of 2.6 and 2.7 (a
full gradient of the logits more than under 2.13); the `grad_fn` of such views as 2.4.1, 2.6.0 and 2.8.0 (slice, select,
slice) and 2.9.0, 2.10.0, 2.13.0 and 2.14.1 (select) make them on the CPU. aten/src/ATen/TensorIndexing.h, applySlice:
up to 2.8 ":" ended at the largest number, which was compared with the length; `0:n` of a length n was passed over then
too, and an end beyond it was not.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

_PASSED_OVER = (2, 9)
_WHOLE = slice(None)
#: Where ":" ends when nothing is written.
_FAR = (1 << 63) - 1


def install(recorder: Recorder) -> None:
    """Records full slices, or passes over them, where the installed torch does the other."""
    import torch

    record = recorder.settings.torch < _PASSED_OVER
    if record == _recorded_here(torch):
        return

    def getitem(original: Any, tensor: Any, index: Any) -> Any:
        if type(index) is not tuple or not any(type(one) is slice for one in index):
            return original(tensor, index)
        if not all(_known(torch, one, record) for one in index):
            return original(tensor, index)
        return _one_by_one(original, tensor, index, record)

    recorder.patches.wrap(torch.Tensor, "__getitem__", getitem)


def _recorded_here(torch: Any) -> bool:
    """Whether the installed torch records them."""
    with torch.enable_grad():
        view = torch.ones(1, 1, requires_grad=True)[:, 0]
    return any(function.name().startswith("Slice") for function, _ in view.grad_fn.next_functions)


def _known(torch: Any, one: Any, record: bool) -> bool:
    if one is None or one is Ellipsis or type(one) is int:
        return True
    if type(one) is slice:
        return all(part is None or type(part) is int for part in (one.start, one.stop, one.step))
    return record and isinstance(one, torch.Tensor)


def _passed(one: slice, length: int, record: bool) -> bool:
    stop = _FAR if one.stop is None else one.stop
    if one.start not in (None, 0) or one.step not in (None, 1):
        return False
    return bool(stop == length or (not record and stop > length))


def _one_by_one(original: Any, tensor: Any, index: tuple[Any, ...], record: bool) -> Any:
    import torch

    whole, place, counted = tensor, 0, 0
    by_tensor: list[Any] = []
    taken = sum(_dimensions(one) for one in index)
    for one in index:
        if type(one) is int:
            tensor = tensor.select(place, one)
        elif one is None:
            tensor = tensor.unsqueeze(place)
            place += 1
        elif one is Ellipsis:
            place += whole.dim() - taken
        elif type(one) is slice:
            if not _passed(one, tensor.shape[place], record):
                start, step = one.start or 0, one.step or 1
                stop = _FAR if one.stop is None else one.stop
                tensor = torch.ops.aten.slice.Tensor(tensor, place, start, stop, step)
            place += 1
        else:
            by_tensor += [_WHOLE] * (place - counted) + [one]
            place += _dimensions(one)
            counted = place
    if by_tensor:
        return original(tensor, tuple(by_tensor))
    return original(tensor, (Ellipsis,)) if tensor is whole else tensor


def _dimensions(one: Any) -> int:
    """How many dimensions of the tensor a part of an index takes."""
    if one is None or one is Ellipsis:
        return 0
    if type(one) in (int, slice):
        return 1
    return one.dim() if str(one.dtype) in ("torch.bool", "torch.uint8") else 1
