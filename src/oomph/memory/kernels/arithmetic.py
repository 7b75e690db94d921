"""What the arithmetic of kernels needs of a GPU, and how it rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Processors(Protocol):
    """The multiprocessors of a GPU and how many threads each holds: `hardware.gpus.Gpu` has them."""

    @property
    def multiprocessors(self) -> int: ...

    @property
    def threads_per_multiprocessor(self) -> int: ...


@dataclass(frozen=True)
class Counts:
    """The same as bare numbers."""

    multiprocessors: int
    threads_per_multiprocessor: int


def div_up(value: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-value // by)
