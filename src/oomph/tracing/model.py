"""What a trace gives: plain data, no torch. It is written as a PyTorch memory snapshot with more in it (`write`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.memory.allocator.layout import SegmentState
from oomph.memory.categories import Category
from oomph.memory.timeline import Timeline
from oomph.phases import Phase


@dataclass(frozen=True)
class Exact:
    """What only a trace knows, as columns of one device's timeline.

    `phase` has one entry per event, an index into `tuple(Phase)`; `step` one per event, the number of optimizer steps
    that were done. `category` (index into CATEGORIES) and `label` (index into `labels`) have one entry per ALLOC
    event, in order. A label is the module that an activation came from, the parameter's name, or the operator that a
    temporary belongs to.
    """

    phase: list[int]
    step: list[int]
    category: list[int]
    label: list[int]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TracedDevice:
    """One device: its segments at the end, its events, and what the trace knows of them. Blocks that libraries hold
    outside PyTorch's allocator are no events (`outside_bytes`: an estimate with its source in the notes)."""

    index: int
    segments: tuple[SegmentState, ...]
    timeline: Timeline
    exact: Exact


@dataclass(frozen=True)
class Failed:
    """How the script ended by itself: the type and text of its exception, and its traceback as Python prints it.
    `out_of_memory`: the simulated card was full, and nothing caught that."""

    kind: str
    text: str
    traceback: str
    out_of_memory: bool


@dataclass(frozen=True)
class Trace:
    """A traced process (one rank).

    `windows` are positions (begin, end) of what the script itself recorded with torch's memory history, per device
    index. `suppressed` lists what would have been written or sent, `unruled` operators of which the kernel memory
    model says nothing, with how often they ran and the largest result in bytes, `assumptions` what stood in for
    values that only a GPU computes. `uncertain_bytes` is by how much kernels may exceed the model at the peak.
    """

    rank: int
    world: int
    gpu: str
    torch: str
    installed_torch: str
    devices: tuple[TracedDevice, ...]
    capacity_bytes: int | None
    allocator: str
    steps_done: int
    operators: int
    seconds: float
    windows: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    suppressed: tuple[str, ...] = ()
    unruled: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    uncertain_bytes: int = 0
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failed: Failed | None = None


def phases_in_order() -> tuple[Phase, ...]:
    """The numbering of `Exact.phase`."""
    return tuple(Phase)


def categories_in_order() -> tuple[Category, ...]:
    """The numbering of `Exact.category`."""
    return tuple(Category)
