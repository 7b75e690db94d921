"""A file for node_exporter's textfile collector, which reads all *.prom of a folder: replaced in one step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord, rank_name
from oomph.recording.exports.metrics import Metrics, render

#: Seconds between two writings while the job runs; Prometheus asks every 15 to 60.
_EVERY = 5.0


def write(metrics: Metrics, path: str | os.PathLike[str]) -> None:
    """Writes the metrics so that a reader sees the old file or the new one. Raises OSError."""
    target = Path(path).expanduser()
    # Not *.prom: the collector must not read it before it is whole.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(render(metrics), encoding="utf-8", newline="\n")
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


class PrometheusFile:
    """A listener that writes its rank's metrics: FILE.prom becomes FILE-rank-00003.prom, one file per rank. At most
    every `every` seconds, and at a failed request and the end."""

    def __init__(self, path: str, every: float = _EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        self._given = Path(path)
        self._every, self._clock = every, clock
        self._next = 0.0
        self.metrics = Metrics()
        self.path: Path | None = None

    def begin(self, run: Run, header: Header) -> None:
        """The rank's file."""
        suffix = self._given.suffix or ".prom"
        self.path = self._given.with_name(f"{self._given.stem}-{rank_name(header.rank)}{suffix}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.metrics.begin(run, header)
        self._write()

    def phase(self, record: PhaseRecord) -> None:
        """Counted, and written now and then."""
        self.metrics.phase(record)
        if self._clock() >= self._next:
            self._write()

    def step(self, record: StepRecord) -> None:
        """Counted; the next phase writes it."""
        self.metrics.step(record)

    def note(self, record: Note) -> None:
        """Counted."""
        self.metrics.note(record)

    def oom(self, record: OomRecord) -> None:
        """Written at once: the process may die."""
        self.metrics.oom(record)
        self._write()

    def end(self, record: End) -> None:
        """Written for the last time."""
        self.metrics.end(record)
        self._write()

    def _write(self) -> None:
        self._next = self._clock() + self._every
        if self.path is not None:
            write(self.metrics, self.path)
