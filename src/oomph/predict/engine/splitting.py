"""How a tensor is divided among tensor-parallel ranks, and what its sizes become."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

_NAME = re.compile(r"[A-Za-z_]\w*")
_TERM = re.compile(r"[+-]?[^+-]+")


class Part(str, Enum):
    """What a rank has of a tensor: all of it, a part of the tokens, of the heads or the inner width, of the vocabulary,
    or of one dimension of a weight."""

    WHOLE = "whole"
    TOKENS = "tokens"
    WIDTH = "width"
    VOCABULARY = "vocabulary"
    WEIGHT = "weight"


#: Dimensions that are divided. The width of all heads together is written as `hidden` where the two are equal, and a
#: tensor that is divided by heads has no other dimension of that name.
_DIMENSIONS = {
    Part.TOKENS: frozenset(("s",)),
    Part.WIDTH: frozenset(("heads", "kv_heads", "intermediate", "hidden")),
    Part.VOCABULARY: frozenset(("vocab",)),
}


@dataclass(frozen=True)
class Layout:
    """A part; `axis`: which dimension of a weight."""

    part: Part = Part.WHOLE
    axis: int = 0


def divided(text: str, ranks: int) -> str:
    """An expression of which every term is divided."""
    return "".join(f"{each}/{ranks}" for each in _TERM.findall(str(text).replace(" ", "")))


def scaled(text: str, part: Part, ranks: int) -> str:
    """An expression of whose terms those that have a divided dimension are divided."""
    names = _DIMENSIONS.get(part, frozenset())
    terms = _TERM.findall(str(text).replace(" ", ""))
    return "".join(f"{each}/{ranks}" if not names.isdisjoint(_NAME.findall(each)) else each for each in terms)


def shrink(tensor: list[Any], layout: Layout, ranks: int) -> list[Any]:
    """A tensor of a program ([storage, shape, strides, dtype]) as one rank has it."""
    storage, shape, strides, dtype = tensor
    if layout.part is Part.WHOLE:
        return tensor
    if layout.part is not Part.WEIGHT:
        shape = [scaled(each, layout.part, ranks) for each in shape]
        if strides is not None:
            strides = [scaled(each, layout.part, ranks) for each in strides]
        return [storage, shape, strides, dtype]
    shape = [divided(each, ranks) if place == layout.axis else each for place, each in enumerate(shape)]
    if strides is not None and len(shape) == 2:
        # A weight is row-major; what has strides of its own is its transpose.
        strides = ["1", shape[0]]
    return [storage, shape, strides, dtype]
