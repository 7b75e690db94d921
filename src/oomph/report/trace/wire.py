"""The JSON document of `oomph trace`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oomph.report.snapshot.wire import Snapshot
from oomph.report.snapshot.wire_parts import Frame
from oomph.report.wire import Phase, Strict

SCHEMA_VERSION = "1"


class Peak(Strict):
    """The most of a phase. `reserved_low_bytes` to `reserved_high_bytes` is what other orders of addresses give;
    `uncertain_bytes` may come on top of any of them; `most_bytes` is the upper end of all."""

    allocated_bytes: int
    reserved_bytes: int
    reserved_low_bytes: int
    reserved_high_bytes: int
    uncertain_bytes: int
    most_bytes: int


class PhasePeak(Strict):
    """A phase and the events of the trace after which the most was allocated and reserved in it."""

    phase: Phase
    peak: Peak
    allocated_at: int
    reserved_at: int


class StepPeak(Strict):
    """The most of one optimizer step, counted from 0."""

    step: int
    allocated_bytes: int
    reserved_bytes: int


class Part(Strict):
    """Blocks of one module (numbers in its name are "*") or operator: alive at the moment of the report, and the
    largest and how many there were in the whole trace."""

    label: str
    bytes: int
    blocks: int
    largest_bytes: int
    times: int


class Device(Strict):
    """One device. `fits`: true only when the upper end does; null: no capacity is known. `fails_in`: the phase in which
    memory runs out, or may."""

    index: int
    fits: bool | None
    fails_in: Phase | None
    surely_fails: bool
    orders_played: Annotated[int, Meta(description="Orders of addresses that were played with the capacity.")]
    orders_failed: Annotated[int, Meta(description="How many of them ran out of memory.")]
    orders: Annotated[int, Meta(description="Orders of addresses that the ranges come from.")]
    peak: Peak
    peak_phase: Phase | None
    phases: list[PhasePeak]
    first_step: StepPeak | None
    fullest_step: Annotated[StepPeak | None, Meta(description="The most of the later steps.")]
    activations: Annotated[list[Part], Meta(description="By module, largest at the moment first.")]
    temporaries: Annotated[list[Part], Meta(description="By operator, largest at the moment first.")]
    notes: list[str]


class Unruled(Strict):
    """An operator of which the kernel memory model says nothing."""

    operator: str
    times: int
    largest_bytes: Annotated[int, Meta(description="Its largest result.")]


class Failed(Strict):
    """The exception with which the script ended by itself."""

    kind: str
    text: str
    traceback: str
    out_of_memory: bool


class Trace(Strict):
    """The answer for one process. `snapshot` is what `oomph snapshot` says of the same trace: what was alive, why a
    request failed, what if."""

    summary: str
    exit_code: int
    command: str
    rank: int
    world: int
    gpu: str
    torch: Annotated[str, Meta(description="The PyTorch that the answer speaks for.")]
    installed_torch: Annotated[str, Meta(description="The PyTorch that ran.")]
    capacity_bytes: int | None
    fits: bool | None
    shown: Annotated[int, Meta(description="Place in `devices` of the one to look at first.")]
    devices: list[Device]
    steps_done: int
    operators: int
    seconds: float
    uncertain_bytes: int
    suppressed: Annotated[list[str], Meta(description="What would have been written or sent.")]
    unruled: list[Unruled]
    assumptions: Annotated[list[str], Meta(description="What stood in for values that only a GPU computes.")]
    notes: list[str]
    failed: Failed | None
    snapshot: Snapshot
    unfinished: Annotated[str, Meta(description='Why the script did not come to its end; "": it did.')] = ""


class Largest(Strict):
    """The answer of --largest: the largest value of a flag with which the job fits. `fails_at` is the least that was
    tried and does not fit; null: none."""

    flag: str
    value: int | None
    fails_at: int | None
    tried: Annotated[dict[str, bool | None], Meta(description="Value to whether it fits.")]


class Report(Strict):
    """The answer of `oomph trace --format json`."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Annotated[
        int,
        Meta(
            description="1: memory runs out, or may, or will at the rate at which it grows. 2: the script ended with "
            "an exception of its own."
        ),
    ]
    traces: list[Trace]
    stacks: Annotated[
        list[list[int]],
        Meta(description="Call stacks, innermost frame first: places in `frames`."),
    ]
    frames: Annotated[list[Frame], Meta(description="Each frame once, however many stacks share it.")]
    largest: Largest | None = None
