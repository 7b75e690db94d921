"""`torch.einsum` of two operands: up to torch 2.8 the first operand's dimensions came first in memory, from 2.9 on the
second's do where they come first in the result (pull request 161755).

The result holds the same numbers in another order of strides, and kernels that read it choose their scratch memory by
strides. Evidence: aten/src/ATen/native/Linear.cpp, sumproduct_pair; the strides that torch 2.4.1, 2.8.0 (first operand
first), 2.9.0 and 2.13.0 (exchanged) give; in a real snapshot of 2.7 the maximum over such a result takes 157 MiB.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: The first version that exchanges operands.
_EXCHANGES = (2, 9)
_DOTS = "..."


def install(recorder: Recorder) -> None:
    """Keeps the operands' order where the trace speaks for an old torch."""
    if recorder.settings.torch >= _EXCHANGES:
        return
    import torch

    def einsum(original: Any, equation: str, operands: Any, *args: Any, **kwargs: Any) -> Any:
        shapes = [tuple(one.shape) for one in operands]
        plan = in_old_order(equation, shapes) if len(shapes) == 2 else None
        if plan is None:
            return original(equation, operands, *args, **kwargs)
        there, back = plan
        return original(there, operands, *args, **kwargs).permute(back)

    # What torch.einsum calls: names that a script took before the trace reach it too.
    recorder.patches.wrap(torch._VF, "einsum", einsum)  # noqa: SLF001


def in_old_order(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[str, list[int]] | None:
    """For two operands: an equation whose result no torch exchanges, and the permutation to the wanted result. None
    where nothing would be exchanged, or the equation is none that this understands (then torch says so)."""
    parsed = _labels(equation.replace(" ", ""), shapes)
    if parsed is None:
        return None
    first, second, out = parsed
    sizes = [
        dict(zip(labels, shape, strict=True)) for labels, shape in zip((first, second), shapes, strict=True)
    ]
    groups: dict[str, list[str]] = {"both": [], "left": [], "right": []}
    for label in out:
        in_first, in_second = (size.get(label, 1) != 1 for size in sizes)
        groups["both" if in_first and in_second else "left" if in_first else "right"].append(label)
    both, left, right = groups.values()
    if not left or not right or out.index(right[-1]) > out.index(left[0]):
        return None
    order = [*both, *left, *right]
    return f"{first},{second}->{''.join(order)}", [order.index(label) for label in out]


def _labels(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[str, str, str] | None:
    """Both operands' labels and the result's, without dots; None for repeated labels and what does not fit."""
    sides, arrow, out = equation.partition("->")
    operands = sides.split(",")
    if len(operands) != len(shapes):
        return None
    spare = "".join(letter for letter in string.ascii_letters if letter not in equation)
    parts, most = [], 0
    for part, shape in zip(operands, shapes, strict=True):
        hidden = len(shape) - len(part.replace(_DOTS, ""))
        if _DOTS not in part:
            parts.append(part)
            continue
        if not 0 <= hidden <= len(spare):
            return None
        # Of fewer dimensions the last ones are meant, as in broadcasting.
        parts.append(part.replace(_DOTS, spare[len(spare) - hidden :]))
        most = max(most, hidden)
    if not arrow:
        labels = sides.replace(_DOTS, "").replace(",", "")
        out = _DOTS * bool(most) + "".join(one for one in sorted(set(labels)) if labels.count(one) == 1)
    result = out.replace(_DOTS, spare[len(spare) - most :])
    if any(
        len({*part}) != len(part) or len(part) != len(shape)
        for part, shape in zip(parts, shapes, strict=True)
    ):
        return None
    if len(set(result)) != len(result) or not set(result) <= set(parts[0] + parts[1]):
        return None
    # Without a sum it is a product, and no operand comes first.
    summed = set(parts[0]) & set(parts[1]) - set(result)
    return (parts[0], parts[1], result) if summed else None
