"""What a recording holds, in short."""

from __future__ import annotations

from oomph.evidence.run.model import End, Note, OomRecord, PhaseRecord, StepRecord


def told(run) -> list[str]:
    """ "forward 0", "step 0", "oom backward 1", "end completed": all records but the first, in their order."""
    lines = []
    for one in run.writer.held:
        if isinstance(one, PhaseRecord):
            where = f" {one.where}" if one.where else ""
            times = f" x{one.times}" if one.times > 1 else ""
            raised = f" {one.raised}" if one.raised else ""
            lines.append(f"{one.phase.value} {one.step}{where}{times}{raised}")
        elif isinstance(one, StepRecord):
            lines.append(f"step {one.step}")
        elif isinstance(one, OomRecord):
            lines.append(f"oom {one.phase.value} {one.step}{' caught' if one.caught else ''}")
        elif isinstance(one, Note):
            lines.append(f"note {one.code}")
        elif isinstance(one, End):
            lines.append(f"end {one.outcome}")
    return lines
