"""Operator calls in recorded snapshots: what they allocated, in order, by the C++ functions on the stacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from oomph.evidence.snapshot import read
from oomph.memory.timeline import Kind

_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "snapshots"


def folder() -> Path | None:
    """Recorded snapshots: below or beside what OOMPH_CONFORMANCE names, or beside the repository."""
    named = os.environ.get("OOMPH_CONFORMANCE")
    places = [Path(named) / "snapshots", Path(named).parent / "snapshots"] if named else [_BESIDE]
    return next((place for place in places if place.is_dir()), None)


@dataclass(frozen=True)
class Event:
    """An allocation (or the return of one): its size, and the functions on its stack, innermost first."""

    position: int
    alloc: bool
    size: int
    functions: tuple[str, ...]

    def within(self, function: str) -> bool:
        """Whether a function of that name, or one that begins with it, is on the stack."""
        return any(function in name for name in self.functions)


@lru_cache(maxsize=2)
def events(path: Path, device: int) -> tuple[Event, ...]:
    """All allocations and frees of one device."""
    timeline = read(path).devices[device].timeline
    kinds = timeline.kind.tolist()
    wanted = [at for at, kind in enumerate(kinds) if kind in (Kind.ALLOC, Kind.FREE_REQUESTED)]
    names: dict[int, tuple[str, ...]] = {-1: ()}
    found = []
    for at, number in zip(wanted, timeline.stack_ids(wanted).tolist(), strict=True):
        if number not in names:
            names[number] = tuple(frame.function for frame in timeline.stacks.frames(number))
        found.append(Event(at, kinds[at] == Kind.ALLOC, int(timeline.size_bytes[at]), names[number]))
    return tuple(found)


def calls(path: Path, operator: str, device: int = 0) -> Iterator[list[Event]]:
    """The events of each call of an operator (`sum_dim_IntList`): those one after the other below its dispatcher."""
    name = f"at::_ops::{operator}::"
    call: list[Event] = []
    last = -9
    for number, event in enumerate(events(path, device)):
        if event.within(name):
            if call and number != last + 1:
                yield call
                call = []
            call.append(event)
            last = number
    if call:
        yield call
