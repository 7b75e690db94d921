"""What a memory snapshot says, as plain data: what reports show and what rules ask.

All sizes are bytes. A position is the index of an event in its device's timeline; "at" a position means after that
event, and -1 is the start of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from oomph.diagnose.model import Advice, Certainty, Finding, RuledOut
from oomph.memory.categories import Category
from oomph.memory.ledger import Ledger
from oomph.memory.stacks import Frame
from oomph.phases import Phase


class How(str, Enum):
    """By what a category, a phase or a step was told."""

    FRAMES = "frames"  # the call stack of the allocation
    ANNOTATIONS = "annotations"  # ranges that PyTorch or the user named
    LIFETIME = "lifetime"  # when it was allocated and freed, among the phases
    SIZE = "size"  # a size that only one thing has
    PERIOD = "period"  # what repeats
    TRACED = "trace"  # oomph traced the run itself, and knows
    NONE = "none"  # nothing told it; goes with unknown

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Share:
    """The part of one category in what was alive. `how` is what told most of its bytes, `certainty` the weakest of
    what told at least a tenth of them."""

    category: Category
    bytes: int
    blocks: int
    how: How
    certainty: Certainty


@dataclass(frozen=True)
class Holder:
    """Blocks that were alive and were allocated by one stack.

    `frames` is the stack, innermost first (empty: none was recorded). `place` is the frame to look at: the innermost
    one of the user's own code, else of a library in Python, else None. `first_step` and `last_step` are the steps in
    which its blocks were born; None: before the trace, or no steps are known. `label` is, of a trace, the module, the
    parameter or the operator that the blocks belong to ("layers.*.mlp": of several); "" where that is not known.
    """

    frames: tuple[Frame, ...]
    place: Frame | None
    bytes: int
    blocks: int
    largest_bytes: int
    category: Category
    how: How
    certainty: Certainty
    phase: Phase
    first_step: int | None = None
    last_step: int | None = None
    label: str = ""


@dataclass(frozen=True)
class Moment:
    """The moment that a report is about.

    `kind` is "oom", "retry" (cached memory was given back to serve a request), "peak allocated", "peak reserved",
    "asked for" (--at) or "end" (no history). `time_us` is UNKNOWN (-1) where not recorded; `after_us` since the first
    event. `step` counts from 0 within the trace.
    """

    kind: str
    position: int
    events: int
    time_us: int = -1
    after_us: int = -1
    phase: Phase = Phase.UNKNOWN
    phase_how: How = How.NONE
    step: int | None = None
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Steps:
    """Training steps in the trace. `how` says what told them, `why` is a sentence. `first_positions` holds where
    each begins; a step that the trace cuts off at its start or end counts where most of it is there."""

    count: int
    how: How
    certainty: Certainty
    why: str
    first_positions: tuple[int, ...] = ()


@dataclass(frozen=True)
class PoolUse:
    """One free list of the allocator: a pool of one stream. `pool` (0, 0) is the default one, any other is private
    (a CUDA graph's, or a MemPool). `largest_hole_bytes` is its largest free block."""

    pool: tuple[int, int]
    stream: int
    small: bool
    expandable: bool
    segments: int
    reserved_bytes: int
    allocated_bytes: int
    largest_hole_bytes: int
    holes: int

    @property
    def cached_bytes(self) -> int:
        return self.reserved_bytes - self.allocated_bytes


@dataclass(frozen=True)
class Pin:
    """A block that keeps free memory on its two sides apart, or keeps its segment from being given back.
    `freed_bytes` is how large the hole would be without it."""

    bytes: int
    hole_bytes: int
    frames: tuple[Frame, ...]
    place: Frame | None
    category: Category


class Verdict(str, Enum):
    """Why a request could not be served."""

    FULL = "full"  # what was alive left no room, however it lay
    FRAGMENTED = "fragmented"  # room enough in the request's own pool, in pieces
    CAPPED = "capped"  # the device had room; a limit stood in the way
    OTHER_POOL = "other pool or stream holds it"  # room enough, in free lists that this request may not use
    OUTSIDE_GREW = "outside grew"  # memory that PyTorch had before went to something else
    UNKNOWN = "unknown"  # the snapshot does not say enough

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Failure:
    """A request that failed and why.

    `request_bytes` is rounded as the allocator rounds, `segment_bytes` what it asked of the driver. `hole_bytes` is
    the largest free block of the request's own free list, `cached_own_bytes` all free bytes there, `cached_bytes` all
    of them anywhere, `free_bytes` what the driver had (None: not recorded). `available_bytes` is what PyTorch could
    have had in all: reserved + free. `short_by_bytes` is what was missing even if all free memory, cached or not,
    had been one piece (0: it would have fitted). `pins` are the blocks that kept the largest holes apart.
    """

    position: int
    verdict: Verdict
    certainty: Certainty
    says: str
    request_bytes: int
    segment_bytes: int
    pool: tuple[int, int]
    stream: int
    small: bool
    hole_bytes: int
    cached_own_bytes: int
    cached_bytes: int
    free_bytes: int | None
    reserved_bytes: int
    allocated_bytes: int
    available_bytes: int | None
    short_by_bytes: int | None
    frames: tuple[Frame, ...] = ()
    pins: tuple[Pin, ...] = ()
    outside_growth_bytes: int | None = None
    ruled_out: tuple[RuledOut, ...] = ()
    caught: bool = False  # events follow that show that the job went on
    simulated: bool = False  # in a trace, whose driver and card are none


@dataclass(frozen=True)
class Retry:
    """Cached memory was given back to the driver because a request found no room, and then the request was served.

    `bound_bytes`: the device had less than this for PyTorch. `certainty` is likely where the stack shows that it was
    not `empty_cache` of the user's, possible where nothing tells.
    """

    position: int
    released_bytes: int
    segments: int
    request_bytes: int
    needed_bytes: int
    bound_bytes: int | None
    certainty: Certainty
    says: str
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Leak:
    """Blocks of one stack that outlive their step, in step after step."""

    frames: tuple[Frame, ...]
    place: Frame | None
    category: Category
    bytes_per_step: int
    blocks_per_step: float
    steps: int
    total_bytes: int
    first_step: int
    certainty: Certainty


@dataclass(frozen=True)
class Growth:
    """How memory at the same place of each step changes through the trace.

    `leaks` are what grows, largest first. `bytes_per_step` is their sum. `fails_at_step` is the step of the trace at
    which it will not fit into `available_bytes`; None when nothing grows or what is available is not known.
    `first_step_bytes` is what the first step left behind for good (optimizer state, workspaces: no leak).
    `longest_step` is the step whose peak stands out where what remains does not: a longer batch, or an evaluation.
    `says` is the answer in a sentence or two.
    """

    says: str
    steps: int
    leaks: tuple[Leak, ...] = ()
    bytes_per_step: int = 0
    fails_at_step: int | None = None
    available_bytes: int | None = None
    first_step_bytes: int = 0
    longest_step: int | None = None
    longest_peak_bytes: int | None = None
    usual_peak_bytes: int | None = None


@dataclass(frozen=True)
class Trial:
    """The same requests under other settings. `setting` is what to set ("" for those of the job), `change` in words.

    `fails_at` is the position of the first request without memory, None when there was none; `survived` are requests
    that failed in the trace too and after which the job went on. `served_at`: a request that failed in the trace and
    is served here; what the job would have done then is unknown, so the trial ends there. `retries` counts how often
    cached memory was given back to serve a request, `releases` the segments or mapped ranges given back.
    Peaks are up to where the trial ended. `caveat` is what weakens the answer, "" when nothing does.
    """

    setting: str
    change: str
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    fails_at: int | None
    retries: int
    releases: int
    caveat: str = ""
    served_at: int | None = None
    survived: tuple[int, ...] = ()


@dataclass(frozen=True)
class WhatIf:
    """All trials of one device. `capacity_bytes` is what they had (None: not known, so none can fail), `capacity_how`
    how that is known. `worth_trying` is the trial to try first, None when none helps; `says` is the answer."""

    capacity_bytes: int | None
    capacity_how: str
    trials: tuple[Trial, ...]
    worth_trying: Trial | None
    says: str


@dataclass(frozen=True)
class DeviceReport:
    """Everything said about one device. `phases` and `born_in` are bytes alive at the moment by the phase and by the
    training step of their allocation (-1: before step 0). `notes` are what weakens it, a sentence each."""

    index: int
    events: int
    moment: Moment
    ledger: Ledger
    shares: tuple[Share, ...]
    holders: tuple[Holder, ...]
    pools: tuple[PoolUse, ...]
    phases: Mapping[Phase, int] = field(default_factory=dict)
    born_in: Mapping[int, int] = field(default_factory=dict)
    steps: Steps | None = None
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    failure: Failure | None = None
    failures: int = 0
    retries: tuple[Retry, ...] = ()
    growth: Growth | None = None
    what_if: WhatIf | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SnapshotReport:
    """The answer of `oomph snapshot` for one file. `shown` is the index in `devices` of the one to look at first.
    `settings` is the allocator's configuration as the file tells it, "" where it does not."""

    source: str
    era: str
    size_bytes: int
    settings: str
    devices: tuple[DeviceReport, ...]
    shown: int
    findings: tuple[Finding, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    advice: Advice | None = None
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 when a request failed and nothing shows that the job went on, else 0."""
        return int(any(one.failure is not None and not one.failure.caught for one in self.devices))


@dataclass(frozen=True)
class Inside:
    """What a snapshot shows of the device of a failure. `exact`: it recorded this very failure; otherwise it shows
    the same job at another moment. `settings` as in SnapshotReport."""

    source: str
    settings: str
    device: DeviceReport
    exact: bool

    @property
    def failure(self) -> Failure | None:
        """The recorded failure, if it is this one."""
        return self.device.failure if self.exact else None

    @property
    def private_reserved_bytes(self) -> int:
        """What private pools (CUDA graphs, MemPools) had reserved at the moment of the snapshot's report."""
        return sum(pool.reserved_bytes for pool in self.device.pools if pool.pool != (0, 0))

    def bytes_of(self, *categories: Category) -> int:
        """Bytes of these categories that were alive at the moment of the snapshot's report."""
        return sum(share.bytes for share in self.device.shares if share.category in categories)

    def surely(self, *categories: Category) -> int:
        """The same without shares whose category is only possible."""
        return sum(
            share.bytes
            for share in self.device.shares
            if share.category in categories and share.certainty is not Certainty.POSSIBLE
        )
