"""The recorder's phases against the memory snapshot of the same run.

A snapshot has every request with its time and its stack. Two things are asked of it, neither of which the recorder
knows of: how much was allocated at most between the moments at which a phase began and ended, and in which phase the
stack of each request was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.evidence.run.data import RunData
from oomph.evidence.run.model import PhaseRecord
from oomph.phases import Phase

#: A phase's first and last microseconds may fall to its neighbour, and rests of large blocks are not in events.
SHARE, SLACK_BYTES = 0.005, 2 << 20
#: Bytes whose stacks name another phase than the hooks: what lies between two phases belongs to either.
MOST_ELSEWHERE = 0.05
_JUDGED = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.EVAL)


@dataclass(frozen=True)
class PhaseCheck:
    """One phase over all steps: the largest difference of its peak, recorded less the snapshot's, and of the bytes that
    were requested in it the share whose stacks name another phase (None: no stack names one)."""

    phase: Phase
    recorded: int
    snapshot: int
    off_bytes: int
    elsewhere: float | None

    @property
    def good(self) -> bool:
        """Within what clocks and rounding allow."""
        allowed = max(SLACK_BYTES, int(self.snapshot * SHARE))
        return abs(self.off_bytes) <= allowed and (self.elsewhere or 0.0) <= MOST_ELSEWHERE


def check(data: RunData, snapshot: Path) -> list[PhaseCheck]:
    """The phases of rank 0. Raises InputError where the snapshot cannot be read."""
    import numpy as np

    from oomph.diagnose.snapshot.build import analyse
    from oomph.evidence.snapshot import read

    analyses = analyse(read(snapshot))
    if not analyses:
        return []
    analysis = max(analyses, key=lambda each: len(each.timeline))
    times = np.maximum.accumulate(analysis.timeline.time_us)
    curve = analysis.allocated_bytes
    begin = int(curve[0]) - int(analysis.lifetimes.allocated_changes()[0]) if len(curve) else 0
    told = _told(analysis)
    found: dict[Phase, list[tuple[int, int, int, int]]] = {}
    for record in data.ranks[min(data.ranks)].phases:
        if record.phase not in _JUDGED or record.times != 1 or record.raised:
            continue
        first, last = _span(record, times)
        before = int(curve[first - 1]) if first else begin
        peak = max(before, int(curve[first:last].max()) if last > first else before)
        named, other = told(first, last, record.phase)
        recorded = record.counters.peak_allocated_bytes
        found.setdefault(record.phase, []).append((recorded, peak, named, other))
    return [_summed(phase, rows) for phase, rows in found.items()]


def _summed(phase: Phase, rows: list[tuple[int, int, int, int]]) -> PhaseCheck:
    worst = max(rows, key=lambda row: abs(row[0] - row[1]))
    named = sum(row[2] for row in rows)
    other = sum(row[3] for row in rows)
    return PhaseCheck(phase, worst[0], worst[1], worst[0] - worst[1], other / named if named else None)


def _span(record: PhaseRecord, times: Any) -> tuple[int, int]:
    """Positions of the first event in the phase and of the first after it."""
    import numpy as np

    begin, end = (record.time - record.seconds) * 1e6, record.time * 1e6
    return int(np.searchsorted(times, begin, side="left")), int(np.searchsorted(times, end, side="right"))


def _told(analysis: Any) -> Any:
    """A function that says of a span and a phase: bytes requested whose stack names a phase, and those of them that it
    names another."""
    import numpy as np

    from oomph.diagnose.model import Certainty
    from oomph.diagnose.snapshot.labels import Labels
    from oomph.memory.timeline import Kind

    positions = analysis.timeline.positions(Kind.ALLOC)
    stacks = analysis.timeline.stack_ids(positions)
    labels = Labels(analysis.timeline.stacks)
    told_by = {number: labels.of(number) for number in set(stacks.tolist())}
    names = {
        number: label.phase for number, label in told_by.items() if label.certainty is not Certainty.POSSIBLE
    }
    sizes = analysis.timeline.size_bytes[positions]

    def told(first: int, last: int, phase: Phase) -> tuple[int, int]:
        begin, end = np.searchsorted(positions, first), np.searchsorted(positions, last)
        named = other = 0
        for stack, size in zip(stacks[begin:end].tolist(), sizes[begin:end].tolist(), strict=True):
            its = names.get(stack, Phase.UNKNOWN)
            if its is Phase.UNKNOWN:
                continue
            named += size
            # Evaluation is a forward of the same modules: a stack cannot tell them apart.
            same = its is phase or {its, phase} == {Phase.FORWARD, Phase.EVAL}
            other += 0 if same else size
        return named, other

    return told
