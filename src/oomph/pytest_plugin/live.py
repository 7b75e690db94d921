"""Measuring on a device that is there: CUDA's, or the CPU counted as if it were one."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.errors import OomphError
from oomph.phases import Phase
from oomph.pytest_plugin.measured import Measured, Peak
from oomph.recording.listeners import Silent

if TYPE_CHECKING:
    from oomph.evidence.run.model import PhaseRecord
    from oomph.recording.recorder import Recording

_HISTORY = 100_000
_WORDS = {"cuda": "measured on {}", "cpu": "measured on the CPU, counted as if it were a GPU"}


class _Kept:
    """A device that the recording does not close: it is asked for a snapshot afterwards."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def close(self) -> None:
        """Nothing yet."""


class _Collector(Silent):
    """The largest of each phase."""

    def __init__(self) -> None:
        self.phases: dict[Phase, Peak] = {}

    def phase(self, record: PhaseRecord) -> None:
        counters, old = record.counters, self.phases.get(record.phase)
        size = max(counters.peak_allocated_bytes, old.allocated if old else 0)
        held = max(counters.peak_reserved_bytes, old.reserved if old else 0)
        self.phases[record.phase] = Peak(size, held, size, held)


class LiveMeter:
    """Records the test as `oomph.record()` would, without a run directory."""

    def __init__(self, kind: str) -> None:
        self.device = kind
        self._kind = kind
        self._kept: _Kept | None = None
        self._recording: Recording | None = None
        self._collector = _Collector()
        self._start_bytes = 0

    def start(self) -> None:
        """Leftovers of earlier tests go first; what is still alive then counts, and is said."""
        from oomph.probe.choose import device
        from oomph.recording.recorder import Recording
        from oomph.recording.troubles import Troubles
        from oomph.recording.where import rank_of

        gc.collect()
        if self._kind == "cuda":
            import torch

            torch.cuda.init()
            torch.cuda.empty_cache()
        self._kept = _Kept(device(self._kind))
        rank = rank_of(os.environ)
        self._recording = Recording(
            self._kept,
            rank,
            None,
            Troubles(rank.rank),
            every=0.0,
            listeners=(self._collector,),
        )
        self._recording.quiet = True
        self._start_bytes = self._kept.device.read().allocated_bytes
        self._recording.begin("", {}, _HISTORY)

    def stop(self, error: BaseException | None) -> tuple[Measured, bool]:
        """Ends the recording; the device is closed once the snapshot is written."""
        assert self._recording is not None, "it was not started"
        assert self._kept is not None
        if self._kind == "cuda":
            self._kept.device.synchronize()
        self._recording.end(error)
        snapshot = self._snapshot()
        self._kept.device.close()
        measured = Measured(
            _WORDS[self._kind].format(self._kept.device.name or "a GPU"),
            self._collector.phases,
            self._start_bytes,
            categories=lambda: _categories(snapshot),
        )
        return measured, False

    def phase(self, name: str) -> AbstractContextManager[None]:
        """As `run.phase` of `oomph.record()`."""
        assert self._recording is not None, "it was not started"
        return self._recording.phase(name)

    def watch(self, model: object, optimizer: object) -> None:
        """As `oomph.record(model=model, optimizer=optimizer)`."""
        assert self._recording is not None, "it was not started"
        self._recording.watch(model, optimizer)

    def _snapshot(self) -> bytes:
        """What is in memory and what happened to it, as PyTorch writes it; b"" where there is none."""
        assert self._kept is not None
        with tempfile.TemporaryDirectory(prefix="oomph-") as folder:
            path = Path(folder) / "snapshot.pickle"
            with suppress(OSError):
                if not self._kept.device.dump_snapshot(path):
                    return path.read_bytes()
        return b""


def _categories(snapshot: bytes) -> Sequence[tuple[str, int]]:
    """What was alive at the highest peak that the history knows, by category."""
    from oomph.diagnose.snapshot.build import analyse, report_of
    from oomph.evidence.snapshot import from_bytes

    if not snapshot:
        return ()
    try:
        content = from_bytes(snapshot, "the test")
        report = report_of(content, analyses=analyse(content, "peak-allocated"), at="peak-allocated")
    except OomphError:
        return ()
    if not report.devices:
        return ()
    shares = report.devices[report.shown].shares
    return sorted(((str(one.category), one.bytes) for one in shares), key=lambda pair: -pair[1])
