"""What was measured of a test, whatever measured it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from oomph.phases import Phase


@dataclass(frozen=True)
class Peak:
    """The most of one phase, in bytes. `allocated` and `reserved` as measured or predicted; `allocated_most` and
    `reserved_most` the upper ends where a trace predicts (the same where it was measured)."""

    allocated: int
    reserved: int
    allocated_most: int
    reserved_most: int

    def most(self, counter: str) -> int:
        """The upper end of a counter."""
        return self.allocated_most if counter == "allocated" else self.reserved_most


@dataclass
class Measured:
    """All of it. `where` says in words what measured; `start_bytes` is what was allocated before the test began;
    `ran_out`: memory ran out on the traced GPU. `categories` are what was alive at the highest peak, largest first;
    `notes` are sentences."""

    where: str
    phases: dict[Phase, Peak] = field(default_factory=dict)
    start_bytes: int = 0
    ran_out: str = ""
    categories: Callable[[], Sequence[tuple[str, int]]] = lambda: ()
    notes: tuple[str, ...] = ()


class Meter(Protocol):
    """One way to measure. Raises OomphError where it cannot work."""

    #: Where tensors are to be, for torch: "cuda" or "cpu".
    device: str

    def start(self) -> None:
        """The test's code begins."""

    def stop(self, error: BaseException | None) -> tuple[Measured, bool]:
        """It has ended, with this exception; whether the exception was only the end of the measuring."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A phase that the test says itself."""

    def watch(self, model: object, optimizer: object) -> None:
        """Models and optimizers whose phases are to be found by hooks."""
