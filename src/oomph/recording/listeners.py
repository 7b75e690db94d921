"""What a recorder tells others while it records: exporters, loggers, progress bars.

The recorder holds `Listeners(...)` and calls its methods, in the thread that records, right after the record was
written. A listener must be quick; one that raises is told nothing more, and the recorder gets one sentence about it
through `complain` (its own notes, and stderr once). Exporters are made by `oomph.recording.exports.listeners(names)`:
"prometheus:FILE.prom", "prometheus::9400" (HTTP on loopback), "tensorboard:FOLDER", "mlflow:URI".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord


class Listener(Protocol):
    """Hears of every record of one rank, in their order. Every method may do nothing."""

    def begin(self, run: Run, header: Header) -> None:
        """The rank begins to record, or begins anew."""

    def phase(self, record: PhaseRecord) -> None:
        """A phase has ended."""

    def step(self, record: StepRecord) -> None:
        """An optimizer step has completed."""

    def note(self, record: Note) -> None:
        """Something was noticed."""

    def oom(self, record: OomRecord) -> None:
        """A request failed."""

    def end(self, record: End) -> None:
        """The rank ends; nothing comes after it. Files are to be closed."""


class Silent:
    """A listener that does nothing, to be derived from."""

    def begin(self, run: Run, header: Header) -> None:
        """Nothing."""

    def phase(self, record: PhaseRecord) -> None:
        """Nothing."""

    def step(self, record: StepRecord) -> None:
        """Nothing."""

    def note(self, record: Note) -> None:
        """Nothing."""

    def oom(self, record: OomRecord) -> None:
        """Nothing."""

    def end(self, record: End) -> None:
        """Nothing."""


class Listeners:
    """Several listeners as one that never raises. `complain(sentence)` is called once for each that broke."""

    def __init__(
        self, listeners: Iterable[Listener] = (), complain: Callable[[str], None] | None = None
    ) -> None:
        self._all = list(listeners)
        self._complain = complain

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, listener: Listener) -> None:
        """One more, which hears what comes from now on."""
        self._all.append(listener)

    def begin(self, run: Run, header: Header) -> None:
        self._each(lambda one: one.begin(run, header))

    def phase(self, record: PhaseRecord) -> None:
        self._each(lambda one: one.phase(record))

    def step(self, record: StepRecord) -> None:
        self._each(lambda one: one.step(record))

    def note(self, record: Note) -> None:
        self._each(lambda one: one.note(record))

    def oom(self, record: OomRecord) -> None:
        self._each(lambda one: one.oom(record))

    def end(self, record: End) -> None:
        self._each(lambda one: one.end(record))

    def _each(self, tell: Callable[[Listener], None]) -> None:
        for listener in tuple(self._all):
            try:
                tell(listener)
            except Exception as error:  # noqa: BLE001 - nobody's exporter may break the job that is recorded
                self._all.remove(listener)
                if self._complain is not None:
                    name = type(listener).__name__
                    self._complain(f"{name} stopped: {type(error).__name__}: {str(error)[:300]}")
