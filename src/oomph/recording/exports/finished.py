"""A run that is over, told to a listener as if it happened again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from oomph.evidence.run.data import RunData
from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Record, StepRecord
from oomph.evidence.run.read import rank_records
from oomph.recording.exports.metrics import Metrics
from oomph.recording.listeners import Listener


def play(data: RunData, make: Callable[[], Listener]) -> None:
    """Every rank's records to a listener of its own. A rank that never ended is ended as it is known to have."""
    for rank in data.ranks:
        listener = make()
        last: Record | None = None
        for record in _records(data, rank):
            tell(data, listener, record)
            last = record
        if last is not None and not isinstance(last, End):
            listener.end(_ended(data, rank, last))


def metrics_of(data: RunData) -> Metrics:
    """The metrics of all ranks together."""
    metrics = Metrics()
    play(data, lambda: metrics)
    return metrics


def tell(data: RunData, listener: Listener, record: Record) -> None:
    """One record to a listener."""
    if isinstance(record, Header):
        listener.begin(data.run, record)
    elif isinstance(record, PhaseRecord):
        listener.phase(record)
    elif isinstance(record, StepRecord):
        listener.step(record)
    elif isinstance(record, OomRecord):
        listener.oom(record)
    elif isinstance(record, Note):
        listener.note(record)
    else:
        listener.end(record)


def _records(data: RunData, rank: int) -> Iterator[Record]:
    """What can be read of a rank, its ends but for the last left out (an attempt that was followed by another)."""
    held: End | None = None
    with suppress(OSError):
        for record in rank_records(data, rank):
            if isinstance(record, End):
                held = record
            else:
                yield record
    if held is not None:
        yield held


def _ended(data: RunData, rank: int, last: Record) -> End:
    return End(data.ranks[rank].outcome.value, last.time, last.clock)
