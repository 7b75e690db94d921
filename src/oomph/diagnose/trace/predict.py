"""A traced device's timeline to a Prediction: the peak of each phase, and between what values it may lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.finished import event_steps
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.trace.model import PhaseRow, StepPeak
from oomph.memory.prediction import Peak, Prediction
from oomph.memory.replay.orders import ORDERS, Orders, highest_orders, orders_by_group, requests_of
from oomph.memory.timeline import Kind
from oomph.phases import Phase

_PHASES = tuple(Phase)
#: Phases in which no kernel runs whose memory could be uncertain.
_WITHOUT_KERNELS = frozenset((Phase.INIT, Phase.LOAD, Phase.SAVE))
#: Events beyond which fewer orders are played: where nothing is compiled, eight of them take some twenty seconds.
_MANY_EVENTS = 300_000
_FEW_ORDERS = 3

Ints = NDArray[np.int64]


def orders_for(analysis: Analysis) -> int:
    """How many orders of addresses are played for this trace."""
    return len(ORDERS) if len(analysis.timeline) <= _MANY_EVENTS else _FEW_ORDERS


@dataclass(frozen=True)
class Played:
    """The requests of a trace under several orders of addresses, with the capacity that it was traced with."""

    #: By phase (its number) and step (from 0; -1 for what is in none).
    parts: Mapping[tuple[int, int], Orders]

    def phases(self) -> dict[int, Orders]:
        """By phase."""
        return self._joined(0)

    def steps(self) -> dict[int, Orders]:
        """By step."""
        return self._joined(1)

    def _joined(self, which: int) -> dict[int, Orders]:
        groups: dict[int, list[Orders]] = {}
        for key, orders in self.parts.items():
            groups.setdefault(key[which], []).append(orders)
        return {group: highest_orders(every) for group, every in groups.items()}


def played_of(analysis: Analysis) -> Played:
    """Plays the requests of a trace."""
    traced = analysis.snapshot.traced
    capacity = None if traced is None else traced.capacity_bytes
    steps = event_steps(analysis) + 1
    groups = analysis.event_phase.astype(np.int64) + len(_PHASES) * steps
    every = _played(analysis, capacity, capacity, groups.tolist())
    return Played({(group % len(_PHASES), group // len(_PHASES) - 1): one for group, one in every.items()})


def step_peaks(analysis: Analysis, played: Played) -> list[StepPeak]:
    """The most of each step, from the same numbers as that of each phase."""
    steps = event_steps(analysis)
    others = played.steps()
    return [
        StepPeak(number, *_most(analysis, np.flatnonzero(steps == number), others.get(number)))
        for number in np.unique(steps[steps >= 0]).tolist()
    ]


def _most(analysis: Analysis, here: Ints, others: Orders | None) -> tuple[int, int]:
    """The most that was allocated and reserved after these events, as `Peak` gives them for a phase."""
    peak = _peak(
        int(analysis.allocated_bytes[here].max()), int(analysis.reserved_bytes[here].max()), others, 0
    )
    return peak.allocated_bytes, peak.reserved_bytes


def _peak(allocated: int, recorded: int, others: Orders | None, uncertain: int) -> Peak:
    # Sums of requests lack the rests of blocks that cannot be split off.
    used = (allocated,) if others is None else [max(each, allocated) for each in others.allocated]
    return Peak.of(used, (recorded, *(() if others is None else others.values)), uncertain)


def prediction_of(
    analysis: Analysis, *, ran_out: bool | None = None, played: Played | None = None
) -> Prediction:
    """What the traced device needs. `played` is `played_of(analysis)`, where it is at hand.

    Orders of addresses other than the trace's own give the range of what each phase reserves. Whether it fits is
    decided by playing all requests with the capacity less what is uncertain. `ran_out`: whether the last failed request
    ended the job (None: it did, if there is one).
    """
    traced = analysis.snapshot.traced
    capacity = None if traced is None else traced.capacity_bytes
    unsure = 0 if traced is None else traced.uncertain_bytes
    orders = (played or played_of(analysis)).phases()
    peaks = {}
    for row in phase_rows(analysis):
        recorded = int(analysis.reserved_bytes[row.reserved_at])
        allocated = int(analysis.allocated_bytes[row.allocated_at])
        others = orders.get(_PHASES.index(row.phase))
        uncertain = 0 if row.phase in _WITHOUT_KERNELS else unsure
        peaks[row.phase] = _peak(allocated, recorded, others, uncertain)
    notes: list[str] = []
    failures: list[Phase | None] = []
    if capacity is not None:
        fatal = fatal_oom(analysis.timeline) if ran_out is not False else None
        less = orders
        if unsure:
            less = _played(analysis, max(1, capacity - unsure), capacity, analysis.event_phase.tolist())
        failures = _failures(analysis, less, fatal, notes)
    return Prediction.judged(
        0 if traced is None else traced.rank,
        analysis.index,
        peaks,
        capacity,
        failures,
        assumptions=() if traced is None else traced.assumptions,
        notes=notes,
    )


def _played(
    analysis: Analysis, capacity: int | None, recorded: int | None, groups: Sequence[int]
) -> dict[int, Orders]:
    """The peaks of each group of events under several orders of addresses."""
    requests = requests_of(analysis.timeline, None, None, analysis.device.segments)
    return orders_by_group(
        requests,
        analysis.settings,
        groups,
        capacity,
        orders_for(analysis),
        recorded_capacity_bytes=recorded,
    )


def _failures(
    analysis: Analysis, played: Mapping[int, Orders], ended_at: int | None, notes: list[str]
) -> list[Phase | None]:
    """For each order of addresses the phase in which it ran out of memory; None: it came to the end. Where the trace
    itself did not, that is the first, and none came further."""
    every = highest_orders(played.values()).fails_at if played else ()
    found = [None if position is None else _PHASES[int(analysis.event_phase[position])] for position in every]
    if ended_at is None:
        # What failed in the trace, the script caught.
        caught = set(analysis.timeline.positions(Kind.OOM).tolist())
        return [None if at in caught else phase for at, phase in zip(every, found, strict=True)]
    served = found.count(None)
    if served:
        notes.append(
            f"{served} of {len(found)} other orders of addresses had memory for the request that failed; what would "
            "have come after it is not known."
        )
    own = _PHASES[int(analysis.event_phase[ended_at])]
    return [own, *(phase for phase in found if phase is not None)]


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
