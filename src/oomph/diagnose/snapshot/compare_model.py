"""What a comparison of snapshots says, as plain data. All sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from oomph.diagnose.model import Certainty
from oomph.diagnose.trace.diverge import Divergence
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame


class Change(str, Enum):
    """What became of the bytes of one stack from the first snapshot to the second."""

    NEW = "new"  # only the second has them
    GONE = "gone"  # only the first has them
    GROWN = "grown"
    SHRUNK = "shrunk"
    SAME = "same"  # as many bytes; the number of blocks may differ

    def __str__(self) -> str:
        return self.value


class Matching(str, Enum):
    """By what a stack of one snapshot was taken for one of another."""

    STACK = "same stack"  # the same functions, files and lines
    MOVED = "same Python frames"  # the same but for folders, C++ frames, and lines in files that were edited
    PLACE = "same place"  # the place in the user's code and what it calls are the same; what called it is not

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Side:
    """One of what is compared: a device of a snapshot at a moment.

    `label` is what to call it, in one or two words ("rank 3", "device 1", "A"); `source` the file. `moment` is the
    kind of the moment (see `model.Moment`) and `position` its event. `rank` is None where nothing tells it. `settings`
    is the allocator's text, "" where the file does not hold it. `traced`: oomph traced it, no GPU ran.
    """

    label: str
    source: str
    device: int
    moment: str
    position: int
    events: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    blocks: int
    rank: int | None = None
    step: int | None = None
    settings: str = ""
    traced: bool = False

    @property
    def cached_bytes(self) -> int:
        return self.reserved_bytes - self.allocated_bytes


@dataclass(frozen=True)
class CategoryRow:
    """Bytes of one category on each side, in the order of `SnapshotComparison.sides`. `reference_bytes` is what the
    sides are measured against: the first of two, the middle one of more."""

    category: Category
    bytes: tuple[int, ...]
    reference_bytes: int

    @property
    def difference_bytes(self) -> int:
        """The second of two minus the first; of more, the largest distance from the reference, with its sign."""
        return max((each - self.reference_bytes for each in self.bytes), key=abs, default=0)


@dataclass(frozen=True)
class StackRow:
    """Blocks of one stack that two snapshots hold differently, `a` the first and `b` the second.

    `frames` is the stack, innermost first, of the second, or of the first where the second has none (empty: none was
    recorded). `place` is the frame to look at. With `Matching.MOVED` and `PLACE` several stacks can be in one row.
    """

    change: Change
    frames: tuple[Frame, ...]
    place: Frame | None
    category: Category
    a_bytes: int
    b_bytes: int
    a_blocks: int
    b_blocks: int
    matching: Matching = Matching.STACK

    @property
    def difference_bytes(self) -> int:
        return self.b_bytes - self.a_bytes


@dataclass(frozen=True)
class SettingRow:
    """A setting of the allocator (or the snapshot's format, which goes with PyTorch's version) that is not the same on
    all sides; one text per side."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Deviation:
    """A side (of three or more) that is not like the middle one.

    `difference_bytes` is what it has allocated more than the middle one (negative: less). `categories` and `stacks`
    say where, largest difference first; in `stacks`, a is the middle side's and b this one's (of the 32 sides that
    differ most).
    """

    label: str
    side: int
    difference_bytes: int
    categories: tuple[tuple[Category, int], ...]
    stacks: tuple[StackRow, ...]


@dataclass(frozen=True)
class SnapshotComparison:
    """The answer of comparing snapshots, ranks or devices.

    `what` is "two" (b against a: `stacks` says what is new, gone, grown and shrunk) or "many" (each against the middle
    one: `deviations`). `noun` is what the sides are: "snapshots", "ranks", "devices" or "moments". `middle` is the
    index of the side that the others are measured against (0 of two). `stacks` holds what differs, largest first;
    `left_out` and `left_out_bytes` count rows beyond those listed and the sum of their differences' sizes. `matching`
    are the ways of matching that were needed. `alike` are the labels of the sides that hold the same to within
    `alike_bytes`, which they differ by at most. `says` is the answer in one or two sentences, `certainty` how surely
    what is compared is comparable, and `notes` say what weakens it. `divergence`, of a real run and a trace of it, is
    where they part, event by event.
    """

    what: str
    noun: str
    sides: tuple[Side, ...]
    says: str
    categories: tuple[CategoryRow, ...]
    stacks: tuple[StackRow, ...] = ()
    left_out: int = 0
    left_out_bytes: int = 0
    matching: tuple[Matching, ...] = ()
    settings: tuple[SettingRow, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    middle: int = 0
    alike: tuple[str, ...] = ()
    alike_bytes: int = 0
    threshold_bytes: int = 0
    certainty: Certainty = Certainty.CERTAIN
    notes: tuple[str, ...] = ()
    divergence: Divergence | None = None
