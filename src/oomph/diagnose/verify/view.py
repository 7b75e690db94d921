"""What checks ask of a run again and again: who can be judged, what was recorded of whom, and in which words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oomph.diagnose.verify.settings import Counter, Settings
from oomph.evidence.run.data import Outcome, RankData, RunData
from oomph.evidence.run.model import OomRecord
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.probe.model import Counters

_ENDED = {
    Outcome.OOM: "ran out of memory",
    Outcome.EXCEPTION: "ended with an exception",
    Outcome.KILLED: "ended without a last record",
    Outcome.RUNNING: "is still running",
    Outcome.UNKNOWN: "left records that do not end",
    Outcome.MISSING: "left no records",
}


@dataclass(frozen=True)
class Asked:
    """One run, what is asked of it, and the prediction that it is held against, where there is one."""

    run: RunData
    settings: Settings
    plan: Plan | None = None


@dataclass(frozen=True)
class Seen:
    """The largest value of one counter that was seen on a rank; `needed`: it was not there, a request for it failed."""

    rank: int
    phase: Phase
    step: int
    size_bytes: int
    needed: bool = False

    @property
    def place(self) -> str:
        """Where it was: "on rank 3 in backward of step 12"."""
        return f"on rank {self.rank} {moment(self.phase, self.step)}"


def moment(phase: Phase, step: int) -> str:
    """In words: "in backward of step 12", "in load before the first step"."""
    name = "an unknown phase" if phase is Phase.UNKNOWN else phase.value
    return f"in {name} of step {step}" if step >= 0 else f"in {name} before the first step"


def settled(rank: RankData) -> bool:
    """Whether nothing more could come: it completed, or was ended by its user."""
    return rank.outcome in (Outcome.COMPLETED, Outcome.INTERRUPTED)


def unjudged(run: RunData) -> list[str]:
    """Why what was recorded may not be all that happened, a part of a sentence each; [] where it is all."""
    if not run.ranks:
        return ["no rank left records"]
    found = [f"rank {rank.rank} {ended(rank)}" for rank in run.ranks.values() if not settled(rank)]
    if run.missing:
        found.append(f"{listed(run.missing)} left no records")
    lossy = [rank for rank in run.ranks.values() if lost(rank)]
    if lossy:
        found.append(f"records of {listed([rank.rank for rank in lossy])} were lost or damaged")
    return found


def lost(rank: RankData) -> int:
    """How many records of a rank could not be written, or not be read."""
    noted = 0 if rank.end is not None else sum(note.code == "lost" for note in rank.notes)
    return rank.damaged + noted + (rank.end.records_lost if rank.end is not None else 0)


def ended(rank: RankData) -> str:
    """How a rank ended, as the end of a sentence about it."""
    how = _ENDED.get(rank.outcome, rank.outcome.value)
    if rank.doing is not None and not settled(rank):
        return f"{how} {moment(rank.doing.phase, rank.doing.step)}"
    return how


def listed(ranks: Sequence[int]) -> str:
    """In words: "rank 3", "ranks 0, 1 and 5", "ranks 0, 1, 2 and 61 more"."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > 5:
        return f"ranks {', '.join(map(str, ordered[:3]))} and {len(ordered) - 3:,} more"
    return f"ranks {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"


def because(reasons: Sequence[str]) -> str:
    """The first reasons as one part of a sentence."""
    shown = "; ".join(reasons[:3])
    return f"{shown}; and {len(reasons) - 3} more" if len(reasons) > 3 else shown


def readings(rank: RankData) -> Iterator[tuple[float, Phase, int, Counters]]:
    """Every reading of counters that was kept: clock, phase, step, counters; in the order of the clock."""
    found = [(one.clock, one.phase, one.step, one.counters) for one in rank.phases]
    found += [(one.clock, Phase.OPTIMIZER, one.step, one.counters) for one in rank.steps]
    found += [(one.clock, one.phase, one.step, one.counters) for one in rank.ooms]
    yield from sorted(found, key=lambda each: each[0])


def readable(rank: RankData) -> bool:
    """Whether counters could be read at all: one that answers nothing leaves zeros and says what is missing."""
    every = (each.counters for records in (rank.phases, rank.steps, rank.ooms) for each in records)
    return any(not each.missing or each.allocated_bytes or each.reserved_bytes for each in every)


def why_not_readable(rank: RankData) -> str:
    """What a rank says of counters that could not be read."""
    said = [each.missing for _, _, _, each in readings(rank) if each.missing]
    told = f": {said[-1].rstrip('.')}" if said else ""
    return f"the counters of rank {rank.rank} were not recorded{told}"


def searched(rank: RankData) -> OomRecord | None:
    """The last request that failed and was caught before the first step was complete: a search for what fits, after
    which the job began anew. None where there was no such search."""
    first = min((step.clock for step in rank.steps), default=None)
    tries = [oom for oom in rank.ooms if oom.caught and (first is None or oom.clock < first)]
    return tries[-1] if tries else None


def peaks(rank: RankData, counter: Counter, phase: Phase | None = None) -> list[Seen]:
    """The largest values of a counter in each phase (or in one), and what an uncaught request that failed would have
    made of it. What happened before the end of a search for a batch that fits is left out."""
    search = searched(rank)
    found = _summed(rank, counter) if search is None else _after(rank, counter, search.clock)
    for oom in rank.ooms:
        if oom.request_bytes is not None and (search is None or oom.clock > search.clock):
            needed = oom.counters.allocated_bytes + oom.request_bytes
            found.append(Seen(rank.rank, oom.phase, oom.step, needed, needed=True))
    return [seen for seen in found if phase is None or seen.phase is phase]


def _summed(rank: RankData, counter: Counter) -> list[Seen]:
    return [
        Seen(rank.rank, summary.phase, its.step, getattr(its, f"{counter}_bytes"))
        for summary in rank.summaries.values()
        for its in (summary.first, summary.later)
        if its is not None
    ]


def _after(rank: RankData, counter: Counter, clock: float) -> list[Seen]:
    """Of phases that began after that moment: the one in which the request failed ends after it."""
    name = "active_bytes" if counter == "active" else f"peak_{counter}_bytes"
    return [
        Seen(rank.rank, one.phase, one.step, getattr(one.counters, name))
        for one in rank.phases
        if one.clock - one.seconds > clock
    ]


def highest(seen: Iterable[Seen]) -> Seen | None:
    """The largest; None where nothing was seen."""
    return max(seen, key=lambda each: each.size_bytes, default=None)


def capacity(rank: RankData) -> int | None:
    """What the rank's card has in all; None where nothing says it."""
    header = rank.header
    if header is not None and header.capacity_bytes:
        return header.capacity_bytes
    return next((each.total_bytes for _, _, _, each in readings(rank) if each.total_bytes), None)


def beside(rank: RankData, until: float | None = None) -> int | None:
    """The most of the card that others had: this process outside of PyTorch's allocator, and other processes. None
    where the card's free memory was never read. `until`: only readings up to that clock, or the first one at all."""
    found: list[tuple[float, int]] = []
    for clock, _, _, each in readings(rank):
        if each.free_bytes is not None and each.total_bytes is not None:
            found.append((clock, max(0, each.total_bytes - each.free_bytes - each.reserved_bytes)))
    if not found:
        return None
    if until is None:
        return max(size for _, size in found)
    early = [size for clock, size in found if clock <= until]
    return max(early) if early else found[0][1]
