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
