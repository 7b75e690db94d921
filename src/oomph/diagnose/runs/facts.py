"""A run that was read, as flat facts: what the index keeps, queries ask, and comparisons hold against each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from oomph.diagnose.runs.model import RunFacts, Value
from oomph.evidence.run.data import Outcome, Peaks, RankData, RunData
from oomph.evidence.run.model import PhaseRecord
from oomph.phases import Phase

#: What differs between ranks of one run by nature.
_OF_A_RANK = (
    "environment.RANK", "environment.LOCAL_RANK", "environment.GROUP_RANK", "environment.NODE_RANK",
    "environment.CUDA_VISIBLE_DEVICES", "environment.SLURM_", "machine.host", "seed",
)  # fmt: skip
#: Values in which a rank may differ from the first one that are kept, and notes.
_MOST_ODD, _MOST_NOTES = 200, 50


def facts_of(run: RunData) -> RunFacts:
    """The facts. Whatever is not known has no name among them."""
    collected = _Collected()
    _of_run(run, collected)
    _fingerprints(run, collected)
    for rank in run.ranks.values():
        _of_rank(rank, collected)
    collected.finish()
    notes = [*run.notes, *(note.text for rank in run.ranks.values() for note in rank.notes)]
    return RunFacts(
        path=run.path,
        id=run.run.id,
        name=run.run.name,
        started=run.run.started,
        outcome=run.outcome.value,
        values={key: value for key, value in collected.values.items() if _finite(value)},
        missing=collected.missing,
        notes=tuple(dict.fromkeys(notes))[:_MOST_NOTES],
    )


def _finite(value: Value) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


@dataclass
class _Collected:
    """Facts in the making; of numbers that several ranks have, the largest and its rank."""

    values: dict[str, Value] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    #: The highest peak of each rank that has one.
    peaks: dict[int, int] = field(default_factory=dict)

    def put(self, key: str, value: Value | None) -> None:
        if value is not None and value != "":
            self.values[key] = value

    def largest(self, key: str, value: int | float | None, rank: int | None = None) -> None:
        before = self.values.get(key)
        if value is not None and (not isinstance(before, (int, float)) or value > before):
            self.values[key] = value
            if rank is not None:
                self.values[f"{key}.rank"] = rank

    def least(self, key: str, value: int | None) -> None:
        before = self.values.get(key)
        if value is not None and (not isinstance(before, (int, float)) or value < before):
            self.values[key] = value

    def count(self, key: str, by: int = 1) -> None:
        before = self.values.get(key)
        self.values[key] = (before if isinstance(before, int) else 0) + by

    def finish(self) -> None:
        """What follows from the rest: the phase of the highest peak, what optimizer states and gradients leave."""
        peaks = {
            phase.value: held
            for phase in Phase
            if isinstance(held := self.values.get(f"phase.{phase.value}.peak"), int)
        }
        if peaks:
            highest = max(peaks, key=lambda name: peaks[name])
            self.values |= {"peak": peaks[highest], "peak.phase": highest}
            self.put("peak.rank", self.values.get(f"phase.{highest}.peak.rank"))
        if len(self.peaks) > 1:
            least = min(self.peaks, key=lambda rank: self.peaks[rank])
            self.values |= {
                "ranks.spread": max(self.peaks.values()) - self.peaks[least],
                "ranks.least": least,
            }


def _of_run(run: RunData, collected: _Collected) -> None:
    put = collected.put
    put("world_size", run.world_size)
    put("ranks.missing", len(run.missing) or None)
    put("command.typed", " ".join(run.run.command))
    put("host", run.run.host)
    put("oomph", run.run.oomph)
    if run.end is not None:
        put("exit_code", run.end.exit_code)
        put("signal", run.end.signal)
        put("seconds", round(run.end.seconds, 3))
    for name, tag in run.run.tags.items():
        put(f"tag.{name}", tag)
    failed = run.first_failure
    if failed is not None:
        put("failed.rank", failed.ranks[0])
        put("failed.ranks", ", ".join(map(str, failed.ranks)))
        one = run.ranks[failed.ranks[0]]
        phase = one.oom.phase if one.oom is not None else one.doing.phase if one.doing is not None else None
        put("failed.phase", None if phase is None else phase.value)
        if one.oom is not None:
            put("failed.request", one.oom.request_bytes)
            put("failed.step", one.oom.step)
    for sample in (each for samples in run.gpus.values() for each in samples):
        for gpu in sample.gpus:
            strangers = sum(process.used_bytes or 0 for process in gpu.processes if not process.ours)
            collected.largest("gpu.strangers", strangers or None)


def _fingerprints(run: RunData, collected: _Collected) -> None:
    """The first rank's values, and in what others differ from it."""
    if not run.fingerprints:
        collected.missing["fingerprint"] = "no rank left one"
        return
    first = min(run.fingerprints)
    base = run.fingerprints[first]
    collected.values |= base.values
    collected.missing |= base.missing
    odd = 0
    for rank, other in run.fingerprints.items():
        for key, value in other.values.items():
            if (
                rank == first
                or key.startswith(_OF_A_RANK)
                or base.values.get(key) == value
                or odd >= _MOST_ODD
            ):
                continue
            odd += 1
            collected.put(f"rank.{rank}.{key}", value)


def _of_rank(rank: RankData, collected: _Collected) -> None:
    header = rank.header
    if header is not None:
        collected.put("device", header.device)
        collected.least("capacity", header.capacity_bytes)
        if header.device not in ("", "CPU") and "gpu.name" not in collected.values:
            collected.put("gpu.name", header.device)
    collected.largest("steps", rank.steps_completed)
    collected.largest("attempts", len(rank.attempts) or None)
    collected.count(f"outcomes.{rank.outcome.value}")
    collected.count("ooms", len(rank.ooms))
    collected.count("ooms.caught", sum(one.caught for one in rank.ooms))
    if rank.outcome is Outcome.MISSING:
        return
    if rank.summaries:
        collected.peaks[rank.rank] = rank.peak_allocated_bytes
    for phase, summary in rank.summaries.items():
        name = f"phase.{phase.value}"
        collected.largest(f"{name}.peak", summary.peak_allocated_bytes, rank.rank)
        collected.largest(f"{name}.reserved", summary.peak_reserved_bytes)
        for which, peaks in (("first", summary.first), ("later", summary.later)):
            if peaks is not None:
                _of_peaks(collected, f"{name}.{which}", peaks, rank.rank)
    _parts(rank, collected)
    if rank.growth is not None:
        collected.largest("growth.per_step", round(rank.growth.allocated_per_step))
        if rank.growth.steady:
            collected.put("growth.steady", "yes")
    for note in rank.notes:
        collected.count(f"note.{note.code}")
    _batches(_all_batches(rank), collected)


def _of_peaks(collected: _Collected, name: str, peaks: Peaks, rank: int) -> None:
    collected.largest(f"{name}.peak", peaks.allocated_bytes, rank)
    collected.largest(f"{name}.within", max(0, peaks.growth_bytes))
    collected.largest(f"{name}.seconds", round(peaks.seconds / max(1, peaks.records), 6))
    collected.largest("peak.reserved", peaks.reserved_bytes, rank)
    collected.largest("retries", peaks.retries)
    collected.largest("outside", peaks.outside_bytes)
    collected.largest("other_processes", peaks.other_processes_bytes)
    collected.largest("host.rss", peaks.rss_bytes)
    collected.largest("host.pinned", peaks.pinned_bytes)
    collected.least("free.least", peaks.free_bytes)


def _parts(rank: RankData, collected: _Collected) -> None:
    """What is alive between phases, which tells weights from states, gradients and activations:

    alive.before: when the first forward began (parameters, buffers); alive.between: when later ones did (and optimizer
    state); alive.added: the difference; forward.kept: what a later forward left for its backward (activations);
    backward.left: what was alive after a later backward beside what was there before its forward (gradients).
    """
    forwards = [one for one in rank.phases if one.phase is Phase.FORWARD and not one.raised]
    first = next((one for one in forwards if one.step <= 0), None)
    later = [one for one in forwards if one.step > 0]
    if first is not None:
        collected.largest("alive.before", first.start_allocated_bytes)
    if not later:
        later = forwards
    elif first is not None:
        between = round(median(one.start_allocated_bytes for one in later))
        collected.largest("alive.between", between)
        collected.largest("alive.added", max(0, between - first.start_allocated_bytes))
    if later:
        kept = median(one.counters.allocated_bytes - one.start_allocated_bytes for one in later)
        collected.largest("forward.kept", max(0, round(kept)))
        left = _left_by_backward(rank.phases, {one.step: one.start_allocated_bytes for one in later})
        collected.largest("backward.left", None if left is None else max(0, left))


def _left_by_backward(phases: Iterable[PhaseRecord], starts: Mapping[int, int]) -> int | None:
    left = [
        one.counters.allocated_bytes - starts[one.step]
        for one in phases
        if one.phase is Phase.BACKWARD and not one.raised and one.step in starts
    ]
    return round(median(left)) if left else None


def _all_batches(rank: RankData) -> Iterable[Mapping[str, tuple[int, ...]]]:
    for one in rank.phases:
        yield one.batch
    for step in rank.steps:
        yield step.batch
    for oom in rank.ooms:
        yield oom.batch
    for summary in rank.summaries.values():
        for peaks in (summary.first, summary.later):
            if peaks is not None:
                yield peaks.batch


def _batches(batches: Iterable[Mapping[str, tuple[int, ...]]], collected: _Collected) -> None:
    """batch.rows and batch.length: the largest first and second dimension of any batch's tensors (rows of the first
    tensor that has several dimensions); batch.elements: the most elements of one tensor."""
    for batch in batches:
        shaped = [shape for shape in batch.values() if shape]
        if not shaped:
            continue
        main = next(
            (batch[name] for name in ("input_ids", "pixel_values") if len(batch.get(name, ())) > 1), None
        )
        main = main or next((shape for shape in shaped if len(shape) > 1), shaped[0])
        collected.largest("batch.rows", main[0])
        if len(main) == 2:
            collected.largest("batch.length", main[1])
        elements = max(_product(shape) for shape in shaped)
        if elements > int(collected.values.get("batch.elements", 0)):
            collected.put("batch.elements", elements)
            collected.put("batch.longest", "x".join(map(str, main)))


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
