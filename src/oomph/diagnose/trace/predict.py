"""A traced device's timeline to a Prediction: the peak of each phase, and between what values it may lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.trace.model import PhaseRow
from oomph.memory.prediction import Peak, Prediction
from oomph.memory.replay.orders import ORDERS, Orders, requests_of, reserved_orders
from oomph.memory.timeline import Kind
from oomph.phases import Phase

_PHASES = tuple(Phase)
#: Phases in which no kernel runs whose memory could be uncertain.
_WITHOUT_KERNELS = frozenset((Phase.INIT, Phase.LOAD, Phase.SAVE))
#: Events beyond which fewer orders are played: eight of a million events take some twenty seconds.
_MANY_EVENTS = 1_000_000
_FEW_ORDERS = 3

Ints = NDArray[np.int64]


def orders_for(analysis: Analysis) -> int:
    """How many orders of addresses are played for this trace."""
    return len(ORDERS) if len(analysis.timeline) <= _MANY_EVENTS else _FEW_ORDERS


def prediction_of(analysis: Analysis, *, ran_out: bool | None = None) -> Prediction:
    """What the traced device needs.

    The reserved bytes of a phase are the most up to its last request, since what is reserved stays so; orders of
    addresses other than the trace's own give the range. Whether it fits is decided by playing all requests with the
    capacity less what is uncertain. `ran_out`: whether the last failed request ended the job (None: it did, if there
    is one).
    """
    traced = analysis.snapshot.traced
    capacity = None if traced is None else traced.capacity_bytes
    orders = _Played(analysis, capacity)
    peaks = {}
    for row in phase_rows(analysis):
        end = _last_of(analysis, row.phase) + 1
        recorded = int(analysis.reserved_bytes[:end].max(initial=0))
        uncertain = 0 if traced is None or row.phase in _WITHOUT_KERNELS else traced.uncertain_bytes
        allocated = int(analysis.allocated_bytes[row.allocated_at])
        if allocated == int(analysis.allocated_bytes.max(initial=0)):
            allocated = max(allocated, analysis.peak_allocated_bytes)
        peaks[row.phase] = Peak.of(allocated, (recorded, *orders.up_to(end).values), uncertain)
    fatal = fatal_oom(analysis.timeline)
    ended = fatal is not None and ran_out is not False
    notes: list[str] = []
    return Prediction.judged(
        0 if traced is None else traced.rank,
        analysis.index,
        peaks,
        capacity,
        () if capacity is None else _failures(analysis, orders, fatal if ended else None, notes),
        assumptions=() if traced is None else traced.assumptions,
        notes=notes,
    )


def _failures(
    analysis: Analysis, orders: _Played, ended_at: int | None, notes: list[str]
) -> list[Phase | None]:
    """The phase in which each order of addresses ran out of memory, the trace's own first; None: it came to the end."""

    def phase_at(position: int) -> Phase:
        return _PHASES[int(analysis.event_phase[position])]

    played = orders.with_less()
    found = [None if position is None else phase_at(position) for position in played.fails_at]
    if ended_at is None:
        return [None, *found] if not any(found) or not orders.uncertain else list(found)
    # The trace ended there. An order that had memory for this request came no further either.
    served = found.count(None)
    if served:
        notes.append(
            f"{served} of {len(found)} other orders of addresses had memory for the request that failed; what would "
            "have come after it is not known."
        )
    return [phase_at(ended_at), *(phase for phase in found if phase is not None)]


class _Played:
    """The same requests under several orders of addresses, each part of the trace played once."""

    def __init__(self, analysis: Analysis, capacity: int | None) -> None:
        traced = analysis.snapshot.traced
        self._analysis = analysis
        self._capacity = capacity
        self._known: dict[int, Orders] = {}
        self.uncertain = 0 if traced is None else traced.uncertain_bytes

    def up_to(self, end: int) -> Orders:
        """With the capacity of the trace, up to the event before `end`."""
        if end not in self._known:
            self._known[end] = self._play(end, self._capacity)
        return self._known[end]

    def with_less(self) -> Orders:
        """All of the trace with what is certain to be there for it."""
        whole = len(self._analysis.timeline)
        if not self.uncertain or self._capacity is None:
            return self.up_to(whole)
        return self._play(whole, max(1, self._capacity - self.uncertain))

    def _play(self, end: int, capacity: int | None) -> Orders:
        analysis = self._analysis
        requests = requests_of(analysis.timeline, (0, end), None, analysis.device.segments)
        return reserved_orders(
            requests,
            analysis.settings,
            capacity,
            orders_for(analysis),
            recorded_capacity_bytes=self._capacity,
        )


def phase_rows(analysis: Analysis) -> tuple[PhaseRow, ...]:
    """Each phase in the order in which it is first entered, with the places of its peaks."""
    phases, first = np.unique(analysis.event_phase, return_index=True)
    rows = []
    for number in phases[np.argsort(first)].tolist():
        here = np.flatnonzero(analysis.event_phase == number)
        allocated = here[int(np.argmax(analysis.allocated_bytes[here]))]
        reserved = here[int(np.argmax(analysis.reserved_bytes[here]))]
        rows.append(PhaseRow(_PHASES[number], int(allocated), int(reserved)))
    return tuple(rows)


def _last_of(analysis: Analysis, phase: Phase) -> int:
    """The last request of a phase (its last event where it has none): frees reserve nothing."""
    here = analysis.event_phase == _PHASES.index(phase)
    requests = np.flatnonzero(here & (analysis.timeline.kind == Kind.ALLOC))
    return int(requests[-1] if len(requests) else np.flatnonzero(here)[-1])
