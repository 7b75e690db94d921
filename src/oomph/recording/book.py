"""Which records of a step are written: all of the first steps, later what is news.

A phase that occurs once in a step is written when it ends. Micro-batches are summed up: the first is written at once
(a kill in the middle must not cost it), the others as one record at the end of the step.

After `FULL_STEPS` steps one is written every `every` seconds, and whenever it has news: a peak that is a thousandth
above all before, a retry, a failed request, a phase that was not seen before, an exception. Of the others the largest
of each phase is kept, and written at the end if it is above what was written.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from oomph.evidence.run.model import PhaseRecord, Record, StepRecord
from oomph.phases import Phase

FULL_STEPS = 50
#: A peak is news from here on.
NEWS = 1.001
#: So long a phase is held back at most, to be written with others of its step.
_HELD_SECONDS = 10.0
_OF_STEPS = frozenset((Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.UNKNOWN))
_Key = tuple[Phase, str]


class Book:
    """Takes phases and steps as they end; `write` gets those that are to be written."""

    def __init__(self, write: Callable[[Record], object], every: float) -> None:
        self._write = write
        self._every = every
        self._full = True
        self._written_at = float("-inf")
        self._seen: set[_Key] = set()
        self._held: dict[_Key, PhaseRecord] = {}
        self._best: dict[_Key, int] = {}
        self._back: dict[_Key, PhaseRecord] = {}
        self._held_since = 0.0
        self._retries = 0
        self._ooms = 0

    def phase(self, record: PhaseRecord) -> None:
        """A phase has ended."""
        key = (record.phase, record.where)
        if record.phase not in _OF_STEPS or record.raised:
            self._put(key, record)
            return
        if self._full and key not in self._seen:
            self._seen.add(key)
            self.flush()  # the micro-batches before it
            self._put(key, record)
            return
        if self._held and record.clock - self._held_since >= max(self._every, _HELD_SECONDS):
            self.flush()  # a long accumulation, or a loop whose steps are not seen
        if not self._held:
            self._held_since = record.clock
        held = self._held.get(key)
        self._held[key] = record if held is None else merged(held, record)

    def step(self, record: StepRecord) -> None:
        """A step has completed: what was held back of it is written or not."""
        news = self._full or self._news(record)
        for key, held in self._held.items():
            if news:
                self._put(key, held)
            else:
                back = self._back.get(key)
                if back is None or _peak(back) < _peak(held):
                    self._back[key] = held
        if news:
            self._write(record)
            self._written_at = record.clock
        self._held.clear()
        self._seen.clear()
        self._full = record.step + 1 < FULL_STEPS or record.clock - self._written_at >= self._every

    def flush(self) -> None:
        """What is held back now (something went wrong, or the end has come)."""
        for key, held in self._held.items():
            self._put(key, held)
        self._held.clear()

    def close(self) -> None:
        """The end: also the largest of what was left out, where it is above what was written."""
        self.flush()
        for key, back in self._back.items():
            if _peak(back) > self._best.get(key, -1):
                self._put(key, back)
        self._back.clear()

    def _put(self, key: _Key, record: PhaseRecord) -> None:
        self._best[key] = max(self._best.get(key, 0), _peak(record))
        self._write(record)

    def _news(self, record: StepRecord) -> bool:
        counters = record.counters
        more = counters.retries > self._retries or counters.ooms > self._ooms
        self._retries, self._ooms = counters.retries, counters.ooms
        return (
            more
            or record.clock - self._written_at >= self._every
            or any(
                key not in self._best or _peak(held) > self._best[key] * NEWS
                for key, held in self._held.items()
            )
        )


def merged(first: PhaseRecord, second: PhaseRecord) -> PhaseRecord:
    """Two occurrences of a phase in one step as one: the largest peak with its batch, the end of the later one."""
    high = first if _peak(first) >= _peak(second) else second
    counters = msgspec.structs.replace(
        second.counters,
        peak_allocated_bytes=max(first.counters.peak_allocated_bytes, second.counters.peak_allocated_bytes),
        peak_reserved_bytes=max(first.counters.peak_reserved_bytes, second.counters.peak_reserved_bytes),
    )
    return msgspec.structs.replace(
        second,
        seconds=first.seconds + second.seconds,
        times=first.times + second.times,
        counters=counters,
        start_allocated_bytes=high.start_allocated_bytes,
        batch=high.batch,
    )


def _peak(record: PhaseRecord) -> int:
    return record.counters.peak_allocated_bytes
