"""What a plan says: for every kind of rank and every phase, how much memory, of what, and how sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.memory.prediction import Prediction
from oomph.phases import Phase


@dataclass(frozen=True)
class Term:
    """Bytes that are alive at a peak and what they are for; `formula` is the name of the page in docs/terms that
    explains them."""

    name: str
    category: Category
    bytes: int
    formula: str = ""


@dataclass(frozen=True)
class PhasePeak:
    """One phase of one rank. allocated_bytes is the prediction of `torch.cuda.max_memory_allocated()` within the phase;
    low and high are its interval. reserved_bytes is None until the timeline was played through the allocator.
    `terms` sum up to allocated_bytes. `where` says at which place of the phase the peak is."""

    phase: Phase
    allocated_bytes: int
    low_bytes: int
    high_bytes: int
    where: str = ""
    terms: tuple[Term, ...] = ()
    reserved_bytes: int | None = None
    reserved_low_bytes: int | None = None
    reserved_high_bytes: int | None = None


@dataclass(frozen=True)
class Outside:
    """Bytes that PyTorch's allocator does not see: CUDA context, NCCL, other libraries, as ranges with their source.
    `context_high_bytes`: how much of the upper end is the context, which `hardware.available_bytes` has taken off."""

    low_bytes: int
    high_bytes: int
    parts: tuple[tuple[str, int, int], ...] = ()
    context_high_bytes: int = 0


@dataclass(frozen=True)
class RankPlan:
    """One kind of rank: `ranks` are the ranks that are alike (a text: "all 8 ranks", "ranks 0-3")."""

    ranks: str
    first_rank: int
    phases: Mapping[Phase, PhasePeak]
    end_allocated_bytes: int
    outside: Outside
    replay: Prediction | None = None

    @property
    def peak(self) -> PhasePeak:
        """The phase that needs most."""
        return max(self.phases.values(), key=lambda each: each.allocated_bytes)


@dataclass(frozen=True)
class Host:
    """RAM that a node needs, in bytes, at load and while training, and what for."""

    load_bytes: int
    train_bytes: int
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Plan:
    """The prediction for a job. `fits`: True only when the upper end fits on every rank; False when the lower end does
    not fit on one; None in between, or when no capacity is known. `fails_in`: the first phase that does not fit.
    `assumptions`: what stood in for what the job does not say. `unsupported`: what the job asks for and the plan does
    not model, each by name: with one of these no number is given (ranks is empty)."""

    job: Job
    ranks: tuple[RankPlan, ...]
    capacity_bytes: int | None
    fits: bool | None
    fails_in: Phase | None
    assumptions: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    host: Host | None = None
    parameters: int = 0
    trainable: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def worst(self) -> RankPlan:
        """The rank that needs most."""
        return max(self.ranks, key=lambda rank: rank.peak.high_bytes)
