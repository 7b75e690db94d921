"""What a run is known by once it is read, and what a comparison of runs says. Sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec

#: A fact of a run: a text, a count, bytes or seconds.
Value = str | int | float


class RunFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as flat facts by dotted names (docs/runs.md lists them): the fingerprint's, and what its records sum up to.

    `started`: seconds since the epoch. `missing`: what is not known of it, and why. `notes`: sentences of the records.
    """

    path: str
    id: str
    name: str = ""
    started: float = 0.0
    outcome: str = "unknown"
    values: dict[str, Value] = {}
    missing: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How people call it: its id, else where it is."""
        return self.id or self.path

    def text(self, key: str) -> str | None:
        """A fact as text; None where it is not known."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def number(self, key: str) -> float | None:
        """A fact as a number; None where it is none."""
        return as_number(self.values.get(key))


def as_number(value: object) -> float | None:
    """A number, also one that was written as text; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        number = float(str(value).replace("_", "")) if len(str(value)) < 40 else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < 1e300 else None


class Suspicion(IntEnum):
    """How much a change has to do with what happened to memory, the most suspicious first.

    EXPLAINS: memory changed where and as this change would make it. LIKELY: it is known to change memory, and nothing
    speaks against it. POSSIBLE: it can change memory. UNLIKELY: it can, and memory changed the other way, elsewhere, or
    not at all. HARMLESS: it differs between runs whatever happens to memory.
    """

    EXPLAINS = 4
    LIKELY = 3
    POSSIBLE = 2
    UNLIKELY = 1
    HARMLESS = 0

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Change:
    """A fact that differs. None: it is not there. Against several runs, `before` is what most of them have, and
    `others` how many have each value."""

    key: str
    before: Value | None
    after: Value | None
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Suspect:
    """A change and what it could do to memory. `kind` names the knowledge ("batch"), `effect` is a sentence, `sources`
    where it is known from. `expected_bytes`: what it would add at the peak by the first run's own numbers, `phases`
    where. `weight` orders suspects of one `suspicion`."""

    change: Change
    kind: str
    suspicion: Suspicion
    effect: str
    weight: float = 0.0
    sources: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    expected_bytes: int | None = None
    #: The same cause by other names (a batch's shape beside the argument that sets it).
    also: tuple[Change, ...] = ()


@dataclass(frozen=True)
class MemoryChange:
    """A number of bytes (or a count) in both runs. Against several runs `before` is their median, `low` and `high`
    their least and largest; `beyond` says that the run lies outside of them (by more than their spread)."""

    key: str
    label: str
    before: int | None
    after: int | None
    low: int | None = None
    high: int | None = None
    beyond: bool = False
    is_bytes: bool = True

    @property
    def difference(self) -> int | None:
        """after - before, where both are known."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Planned:
    """What the plans of both runs' jobs say; or, in `why`, a sentence that says why there is none."""

    why: str = ""
    before_bytes: int | None = None
    after_bytes: int | None = None
    phases: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class RunsDiff:
    """`run` held against `others` (one, or many that should be alike). `suspects` are ordered; `memory` lists the
    phases in their order. `notes` say what could not be compared."""

    run: RunFacts
    others: tuple[RunFacts, ...]
    suspects: tuple[Suspect, ...]
    memory: tuple[MemoryChange, ...]
    equal: int = 0
    notes: tuple[str, ...] = ()
    planned: Planned | None = None

    @property
    def against_many(self) -> bool:
        """Whether it is held against more than one run."""
        return len(self.others) > 1
