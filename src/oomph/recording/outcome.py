"""How a recording ended, in a word and in a sentence."""

from __future__ import annotations

from pathlib import Path

from oomph.evidence.run.model import Now, OomRecord
from oomph.phases import Phase
from oomph.recording.boundaries import BETWEEN
from oomph.recording.oom import out_of_memory
from oomph.recording.watchdog import describe
from oomph.units import format_bytes


def outcome_of(error: BaseException | None) -> str:
    """One of "completed", "oom", "interrupted" and "exception"."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "completed"
    if out_of_memory(error) is not None:
        return "oom"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "exception"


def said(record: OomRecord, rank: int, world_size: int, directory: Path | None) -> str:
    """What is said of a failure in one sentence."""
    who = f"rank {rank} ran" if world_size > 1 else "memory ran"
    where = f" in {describe(Now(record.phase, record.step, record.time, record.clock))}"
    if record.phase is Phase.UNKNOWN:
        where = (
            f" {record.where}" if record.where == BETWEEN else f" in {record.where}" if record.where else ""
        )
    counters = record.counters
    asked = f"; {format_bytes(record.request_bytes)} were asked for" if record.request_bytes else ""
    free = f", {format_bytes(counters.free_bytes)} free" if counters.free_bytes is not None else ""
    out = "out of memory" if world_size > 1 else "out"
    text = (
        f"{who} {out}{where}{asked} with {format_bytes(counters.allocated_bytes)} allocated, "
        f"{format_bytes(counters.reserved_bytes)} reserved{free}"
    )
    return f"{text}. `oomph explain {directory}` says why" if directory is not None else text
