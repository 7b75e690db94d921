"""The JSON document of `oomph snapshot`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Positions are indices of events in their device's trace, "at" one is after it, -1 is the start. Field
docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oomph.report.snapshot.wire_compare import Comparison
from oomph.report.snapshot.wire_parts import Category, Frame, Stack
from oomph.report.wire import Advice, Certainty, Finding, Ledger, Phase, RuledOut, Strict

SCHEMA_VERSION = "1"

How = Literal["frames", "annotations", "lifetime", "size", "period", "trace", "none"]
Verdict = Literal["full", "fragmented", "capped", "other pool or stream holds it", "outside grew", "unknown"]


class Share(Strict):
    """The part of one category in what was alive; how most of it was told, and the weakest certainty in it."""

    category: Category
    bytes: int
    blocks: int
    how: How
    certainty: Certainty


class Holder(Strict):
    """Blocks that were alive and that one stack allocated. `place` is the frame to look at."""

    bytes: int
    blocks: int
    largest_bytes: int
    category: Category
    how: How
    certainty: Certainty
    phase: Phase
    first_step: Annotated[int | None, Meta(description="Step in which the first was born; null: unknown.")]
    last_step: int | None
    place: Frame | None
    stack: Stack
    label: Annotated[
        str, Meta(description="Of a trace: the module, parameter or operator it belongs to.")
    ] = ""


class Moment(Strict):
    """The moment that the report is about. Times are microseconds, -1 where not recorded."""

    kind: str
    position: int
    time_us: int
    after_us: Annotated[int, Meta(description="Since the first event.")]
    phase: Phase
    phase_how: How
    step: int | None
    stack: Stack


class Steps(Strict):
    """Training steps that the trace shows."""

    count: int
    how: How
    certainty: Certainty
    why: str
    first_positions: list[int]


class Pool(Strict):
    """One free list: a pool (two numbers, 0 and 0 for the default one) of one stream, small or large blocks."""

    pool: tuple[int, int]
    stream: int
    small: bool
    expandable: bool
    segments: int
    reserved_bytes: int
    allocated_bytes: int
    cached_bytes: int
    largest_hole_bytes: int
    holes: int


class Pin(Strict):
    """A block that kept free memory apart, and how large the hole would have been without it."""

    bytes: int
    hole_bytes: int
    category: Category
    place: Frame | None
    stack: Stack


class Failure(Strict):
    """A request that failed and why."""

    position: int
    verdict: Verdict
    certainty: Certainty
    says: str
    caught: Annotated[bool, Meta(description="The job went on after it.")]
    request_bytes: Annotated[int, Meta(description="As the allocator rounds it.")]
    segment_bytes: Annotated[int, Meta(description="What was asked of the driver for it.")]
    pool: tuple[int, int]
    stream: int
    small: bool
    hole_bytes: Annotated[int, Meta(description="Largest free block that the request could have used.")]
    cached_own_bytes: int
    cached_bytes: int
    free_bytes: int | None
    reserved_bytes: int
    allocated_bytes: int
    available_bytes: Annotated[int | None, Meta(description="reserved + free: PyTorch's at most.")]
    short_by_bytes: int | None
    outside_growth_bytes: int | None
    pins: list[Pin]
    ruled_out: list[RuledOut]
    stack: Stack


class Retry(Strict):
    """Cached memory that was given back to the driver so that a request could be served."""

    position: int
    released_bytes: int
    segments: int
    request_bytes: int
    needed_bytes: int
    bound_bytes: Annotated[int | None, Meta(description="The device had less than this for PyTorch.")]
    certainty: Certainty
    says: str
    stack: Stack


class Leak(Strict):
    """Blocks of one stack that outlive their step, in step after step."""

    bytes_per_step: int
    blocks_per_step: float
    steps: int
    total_bytes: int
    first_step: int
    category: Category
    certainty: Certainty
    place: Frame | None
    stack: Stack


class Growth(Strict):
    """How memory at the same place of each step changes."""

    says: str
    steps: int
    bytes_per_step: int
    fails_at_step: int | None
    available_bytes: int | None
    first_step_bytes: Annotated[int, Meta(description="What the first step left for good; no leak.")]
    longest_step: int | None
    longest_peak_bytes: int | None
    usual_peak_bytes: int | None
    leaks: list[Leak]


class Trial(Strict):
    """The same requests under other settings ("" are those of the job). `fails_at`: null when all were served."""

    setting: str
    change: str
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    fails_at: int | None
    retries: int
    releases: int
    caveat: str


class WhatIf(Strict):
    """What other settings would have done. `capacity_bytes`: null when not known, so that no trial can fail."""

    says: str
    capacity_bytes: int | None
    capacity_how: str
    worth_trying: Trial | None
    trials: list[Trial]


class Device(Strict):
    """One device at the moment that the report is about."""

    index: int
    events: int
    moment: Moment
    ledger: Ledger
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    failures: int
    failure: Failure | None
    shares: list[Share]
    holders: list[Holder]
    phases: Annotated[dict[str, int], Meta(description="Bytes alive at the moment, by phase of allocation.")]
    born_in: Annotated[
        dict[str, int],
        Meta(description="The same by training step, counted from 0 within the trace; -1: before step 0."),
    ]
    pools: list[Pool]
    steps: Steps | None
    retries: list[Retry]
    growth: Growth | None
    what_if: WhatIf | None
    notes: list[str]


class Snapshot(Strict):
    """The answer for one file. `shown` is the place in `devices` of the one to look at first."""

    source: str
    size_bytes: int
    format: Annotated[str, Meta(description="The PyTorch version whose format the file has.")]
    settings: Annotated[str, Meta(description="PYTORCH_CUDA_ALLOC_CONF as the file tells it.")]
    exit_code: int
    summary: str
    shown: int
    devices: list[Device]
    findings: list[Finding]
    ruled_out: list[RuledOut]
    advice: Advice | None
    notes: list[str]


class Report(Strict):
    """The answer of `oomph snapshot --format json`."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Annotated[int, Meta(description="1: a request failed and nothing shows that the job went on.")]
    snapshots: list[Snapshot]
    comparison: Comparison | None
    stacks: Annotated[
        list[list[int]],
        Meta(description="Call stacks, innermost frame first: places in `frames`."),
    ]
    frames: Annotated[list[Frame], Meta(description="Each frame once, however many stacks share it.")]
    unreadable: Annotated[list[str], Meta(description="Why each of the other files could not be read.")]
