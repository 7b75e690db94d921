"""What was seen of one traced run: its allocs and frees in order, cut into parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


class Hold(Enum):
    """How long a block is held: until it is freed, or (a workspace, made once) for good."""

    FREED = "freed"
    KEPT = "kept"


@dataclass(frozen=True)
class Seen:
    """One alloc. `shape` and `itemsize` are those of the tensor that it was made for, None where that is not all of it;
    `result` whether it was made for a tensor, not as scratch memory.

    `scratch` is the call of a function of sizes that computed it: the function's name, then whole numbers or tuples of
    them. `category` and `label` are words: what it is for, and the module or operator that it comes from.
    """

    size: int
    operator: str
    shape: tuple[int, ...] | None = None
    itemsize: int = 1
    result: bool = False
    hold: Hold = Hold.FREED
    scratch: tuple[str, tuple[int | tuple[int, ...], ...]] | None = None
    category: str = "unknown"
    label: str = ""


@dataclass(frozen=True)
class Cut:
    """A part of a run: `[begin, end)` of its events, the phase, and which section of the step it is (`forward`).
    `round` counts how often that section had been run before."""

    section: str
    phase: str
    round: int
    begin: int
    end: int


@dataclass
class Stream:
    """A run of a model of these dimensions. An event is the number of an alloc, or `~number` for its free. `doubt` is
    by how many bytes the kernels of one call may exceed what is here."""

    dimensions: Mapping[str, int]
    events: list[int] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    doubt: int = 0

    def alloc(self, seen: Seen) -> int:
        """Appends an alloc; its number."""
        number = len(self.seen)
        self.seen.append(seen)
        self.events.append(number)
        return number

    def free(self, number: int) -> None:
        """Appends the free of an alloc."""
        self.events.append(~number)

    def cut(self, section: str, phase: str) -> None:
        """What came since the last cut is a part."""
        begin = self.cuts[-1].end if self.cuts else 0
        before = sum(each.section == section for each in self.cuts)
        self.cuts.append(Cut(section, phase, before, begin, len(self.events)))

    @property
    def rounds(self) -> int:
        """How often the section that came most often was run: the steps."""
        return 1 + max((each.round for each in self.cuts), default=-1)

    def part(self, section: str, which: int) -> Cut | None:
        """The part of a section in a round, if there was one."""
        for each in self.cuts:
            if each.section == section and each.round == which:
                return each
        return None

    def signed_sizes(self) -> Iterator[tuple[int, int]]:
        """Each event's block and size, blocks counted anew without those of no bytes: what a recipe must give."""
        names: dict[int, int] = {}
        for event in self.events:
            number = event if event >= 0 else ~event
            if not self.seen[number].size:
                continue
            if event >= 0:
                names[number] = len(names)
                yield names[number], self.seen[number].size
            else:
                yield ~names[number], self.seen[number].size

    def told(self, number: int, category: str, label: str) -> None:
        """What became known of an alloc after the run."""
        self.seen[number] = replace(self.seen[number], category=category, label=label)
