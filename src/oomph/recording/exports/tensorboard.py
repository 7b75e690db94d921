"""TensorBoard event files, one folder per rank: scalars over optimizer steps. Needs tensorboard alone, not PyTorch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oomph.errors import UsageError
from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord, rank_name

#: Characters of an id that no folder's name shall have.
_ODD = re.compile(r"[^\w.-]+")


class TensorBoard:
    """A listener that writes FOLDER/RUN/rank-00003/events.out.tfevents.*. Raises UsageError without tensorboard.

    Tags: memory/PHASE/peak_allocated_bytes and the like per phase, step/allocated_bytes and step/seconds per step.
    """

    def __init__(self, folder: str) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise UsageError("tensorboard: not installed: pip install 'oomph[tensorboard]'") from None
        self._folder = Path(folder).expanduser()
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._make: Any = EventFileWriter
        self._writer: Any = None

    def begin(self, run: Run, header: Header) -> None:
        """Opens the rank's file; a process that begins anew goes on with it."""
        if self._writer is None:
            folder = self._folder / (_ODD.sub("-", run.id).strip("-.") or "run") / rank_name(header.rank)
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = self._make(str(folder))
        if header.capacity_bytes is not None:
            self._put(header.time, 0, {"device/capacity_bytes": header.capacity_bytes})

    def phase(self, record: PhaseRecord) -> None:
        """Peaks of a phase."""
        counters, name = record.counters, f"memory/{record.phase.value}"
        values: dict[str, float | None] = {
            f"{name}/peak_allocated_bytes": max(counters.peak_allocated_bytes, counters.allocated_bytes),
            f"{name}/peak_reserved_bytes": max(counters.peak_reserved_bytes, counters.reserved_bytes),
            f"{name}/seconds": record.seconds,
            "device/free_bytes": counters.free_bytes,
            "device/outside_bytes": counters.outside_bytes,
            "device/other_processes_bytes": counters.other_processes_bytes,
        }
        if record.host is not None:
            values |= {"host/rss_bytes": record.host.rss_bytes, "host/pinned_bytes": record.host.pinned_bytes}
        self._put(record.time, record.step, values)

    def step(self, record: StepRecord) -> None:
        """What is left after a step."""
        counters = record.counters
        values = {
            "step/allocated_bytes": counters.allocated_bytes,
            "step/reserved_bytes": counters.reserved_bytes,
            "step/seconds": record.seconds,
            "step/retries": counters.retries,
        }
        self._put(record.time, record.step, values)

    def note(self, record: Note) -> None:
        """A mark at the step."""
        self._put(record.time, record.step, {f"notes/{record.code}": 1})

    def oom(self, record: OomRecord) -> None:
        """The request that failed; written at once."""
        self._put(
            record.time, record.step, {f"oom/{record.phase.value}/request_bytes": record.request_bytes or 0}
        )
        if self._writer is not None:
            self._writer.flush()

    def end(self, record: End) -> None:
        """Closes the file."""
        del record
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _put(self, time: float, step: int, values: dict[str, Any]) -> None:
        known = [
            self._summary.Value(tag=tag, simple_value=value)
            for tag, value in values.items()
            if value is not None
        ]
        if known and self._writer is not None:
            event = self._event(wall_time=time, step=max(0, step), summary=self._summary(value=known))
            self._writer.add_event(event)
