"""What one forward and backward of a denoiser do, as a list of allocations and frees that is cut where parts begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.memory.categories import Category


@dataclass(frozen=True)
class GradOf:
    """A gradient of a parameter: the block, the parameter's name, bytes."""

    block: int
    parameter: str
    bytes: int


@dataclass(frozen=True)
class Segment:
    """Events of one part, from `begin` to `end`. `module`: the module of a stack that it is, or "". `grads`: gradients
    that are there at its end."""

    begin: int
    end: int
    module: str
    grads: tuple[GradOf, ...] = ()


@dataclass(frozen=True, eq=False)
class Log:
    """What one forward and backward do: `events` has n for an allocation of block n and ~n for a free. `kept`: blocks
    that the loop's variables hold."""

    events: Sequence[int]
    sizes: Sequence[int]
    labels: Sequence[tuple[Category, str]]
    forward: tuple[Segment, ...]
    backward: tuple[Segment, ...]
    kept: tuple[int, ...]
    inputs: int
