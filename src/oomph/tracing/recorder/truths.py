"""What is true of numbers that nobody knows: they are finite, and equal to themselves.

Scripts ask that of every loss and gradient (`torch.isnan(loss)`, `assert torch.isfinite(out).all()`,
`torch.distributions` of each parameter). Such questions are answered as a healthy run answers them; a trace in which
everything is NaN would be a trace of the script's error handling. What follows from an answer by logic is computed, at
any size: a tensor whose elements are all the same keeps that one number.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from oomph.tracing.recorder.values import attach, small, value_of

_NAME = "_oomph_same"
_AGE = "_oomph_age"
_TOLD = "_oomph_told"
#: Operators that ask for a number that is none, or has no end.
_NOT_FINITE = frozenset({"aten.isnan", "aten.isinf", "aten.isposinf", "aten.isneginf"})
_BOTH = frozenset({"aten.mul", "aten.logical_and", "aten.bitwise_and", "aten.__and__"})
_EITHER = frozenset({"aten.logical_or", "aten.bitwise_or", "aten.__or__"})
_FLIPPED = frozenset({"aten.logical_not", "aten.bitwise_not"})
_SAME = frozenset({"aten._to_copy", "aten.clone", "aten.amax", "aten.amin"})
_ALL = frozenset({"aten.all", "aten._is_all_true"})
_ANY = frozenset({"aten.any", "aten._is_any_true"})
_COUNTS = frozenset({"aten.sum", "aten.count_nonzero"})
#: Operators that `after` has something to say of, beside views.
NAMES = frozenset(
    {"aten.eq", "aten.ne", "aten.isfinite"}
    | _NOT_FINITE | _BOTH | _EITHER | _FLIPPED | _SAME | _ALL | _ANY | _COUNTS
)  # fmt: skip


def same(tensor: Any) -> int | bool | None:
    """The number that every element of a fake tensor is, where that is known in this way."""
    kept = getattr(tensor, "__dict__", {}).get(_NAME)
    if kept is None:
        return None
    number, age = kept
    return number if getattr(tensor.untyped_storage(), _AGE, 0) == age else None


def told(tensor: Any) -> bool:
    """Whether something is known in this way of a tensor on the same memory."""
    return hasattr(tensor.untyped_storage(), _TOLD)


def after(name: str, view: bool, args: tuple[Any, ...], out: Any) -> bool:
    """An operator ran whose result has no values: keeps what is true of it all the same. Returns whether that says
    something about numbers that only a GPU computes."""
    if not hasattr(out, "fake_device") or not args:
        return False
    number, guessed = _view(args[0]) if view else _number(name, args, out)
    if number is None:
        return False
    import torch

    if small(out):
        attach(out, torch.full(tuple(out.shape), number, dtype=out.dtype))
    storage = out.untyped_storage()
    setattr(storage, _TOLD, True)
    out.__dict__[_NAME] = (number, getattr(storage, _AGE, 0))
    return guessed


def _view(source: Any) -> tuple[int | bool | None, bool]:
    return same(source), False


def _number(name: str, args: tuple[Any, ...], out: Any) -> tuple[int | bool | None, bool]:
    first = args[0]
    if name in _NOT_FINITE:
        return False, True
    if name == "aten.isfinite":
        return True, True
    if name in ("aten.eq", "aten.ne"):
        return _compared(name == "aten.eq", first, args[1])
    if name in _BOTH or name in _EITHER:
        return (_logic(name in _BOTH, first, args[1]), False) if _is_bool(out) else (None, False)
    known = _known(first)
    if name in _FLIPPED:
        return (None if known is None or not _is_bool(out) else not known), False
    if name in _SAME:
        return known, False
    if name in _ALL:
        # Of nothing known: conditions that a healthy run meets. A loop that waits for all to be done ends.
        return (True if known is None else bool(known)), known is None
    if name in _ANY:
        if known is None:
            # Which rows have one decides how many are taken; only the question of a whole is answered.
            return (False, True) if out.numel() == 1 else (None, False)
        return bool(known), False
    if known is None:
        return None, False
    if name == "aten.count_nonzero":
        known = bool(known)
    return int(known) * (first.numel() // max(out.numel(), 1)), False


def _is_bool(tensor: Any) -> bool:
    import torch

    return bool(tensor.dtype is torch.bool)


def _known(tensor: Any) -> int | bool | None:
    """The number of all elements; of a tensor with values too, where it has one element."""
    if not hasattr(tensor, "fake_device"):
        return tensor if isinstance(tensor, bool) else None
    number = same(tensor)
    if number is None and tensor.numel() == 1:
        value = value_of(tensor)
        if value is not None and not value.is_floating_point() and not value.is_complex():
            return value.item()
    return number


def _compared(equal: bool, first: Any, second: Any) -> tuple[bool | None, bool]:
    if first is second:
        return equal, True
    if isinstance(second, float) and not isfinite(second):
        return not equal, True
    one, other = same(first), same(second) if hasattr(second, "fake_device") else second
    if one is not None and isinstance(other, int | float):
        return (one == other) is equal, False
    return None, False


def _logic(both: bool, first: Any, second: Any) -> bool | None:
    """`and`, or `or`; one of the two is enough where it decides."""
    one, other = _known(first), _known(second)
    if one is None or other is None:
        known = other if one is None else one
        return bool(known) if known is not None and bool(known) is not both else None
    return bool(one and other) if both else bool(one or other)
