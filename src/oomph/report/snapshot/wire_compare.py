"""The part of the JSON document of `oomph snapshot` about what differs between snapshots."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oomph.report.snapshot.wire_parts import Category, Frame, Stack
from oomph.report.wire import Certainty, Strict


class Side(Strict):
    """One of what is compared: a device of a snapshot at a moment."""

    label: str
    source: str
    device: int
    rank: int | None
    moment: str
    position: int
    step: int | None
    events: int
    allocated_bytes: int
    reserved_bytes: int
    cached_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    blocks: int
    settings: str
    traced: Annotated[bool, Meta(description="oomph traced it; no GPU ran.")] = False


class Act(Strict):
    """What one side does where a real run and a trace part: "alloc", "free" or "end". `requested_by`: of a free, the
    stack of the request that it gives back."""

    what: Literal["alloc", "free", "end"]
    size_bytes: int
    position: Annotated[int, Meta(description="The event in the whole trace; -1 at the end.")]
    stack: Stack
    requested_by: Stack


class Divergence(Strict):
    """A real run's requests and frees against a trace's. Differences are counted at most: what is taken for two may be
    one. `began_at`: the event of the trace at which the recording begins."""

    events_real: int
    events_traced: int
    equal_before: int
    real: Act | None
    traced: Act | None
    only_real: int
    only_traced: int
    other_block: Annotated[int, Meta(description="Frees that give back another block of the same size.")]
    complete: Annotated[bool, Meta(description="false: too unlike to be compared to the end.")]
    began_at: int
    sure_of_begin: bool


class CategoryRow(Strict):
    """Bytes of one category on each side; `reference_bytes` is what they are measured against."""

    category: Category
    bytes: list[int]
    reference_bytes: int
    difference_bytes: int


class StackRow(Strict):
    """Blocks of one stack that two sides hold differently, `a` the first and `b` the second."""

    change: Literal["new", "gone", "grown", "shrunk", "same"]
    category: Category
    difference_bytes: int
    a_bytes: int
    b_bytes: int
    a_blocks: int
    b_blocks: int
    matching: str
    place: Frame | None
    stack: Stack


class SettingRow(Strict):
    """A setting of the allocator that is not the same on all sides; one text per side."""

    name: str
    values: list[str]


class CategoryDifference(Strict):
    """What a side has of a category more than the middle one (negative: less)."""

    category: Category
    bytes: int


class Deviation(Strict):
    """A side (of three or more) that is not like the middle one, and where. In `stacks`, a is the middle side."""

    label: str
    side: int
    difference_bytes: int
    categories: list[CategoryDifference]
    stacks: list[StackRow]


class Comparison(Strict):
    """What differs between snapshots, ranks or devices.

    `what` is "two" (b against a: `stacks`) or "many" (each against the middle one: `deviations`). `middle` is the
    place in `sides` of the one that the others are measured against. `alike` are the labels of those that hold the
    same to within `alike_bytes`.
    """

    what: str
    noun: str
    says: str
    certainty: Certainty
    middle: int
    sides: list[Side]
    categories: list[CategoryRow]
    stacks: list[StackRow]
    left_out: Annotated[int, Meta(description="Rows of stacks beyond those listed.")]
    left_out_bytes: int
    matching: list[str]
    settings: list[SettingRow]
    deviations: list[Deviation]
    alike: list[str]
    alike_bytes: int
    threshold_bytes: int
    notes: list[str]
    divergence: Divergence | None = None
