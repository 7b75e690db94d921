"""A composed timeline through the simulated allocator: what is reserved in each phase, and whether PyTorch would fail.

Needs numpy only under settings that memory/replay/quick.py leaves to the whole simulation.
"""

from __future__ import annotations

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.prediction import Peak, Prediction
from oomph.memory.replay.quick import QuickRequests
from oomph.phases import Phase
from oomph.predict.event_sink import EventSink

_PHASES = tuple(Phase)
#: Orders of addresses that are played: more change the answer by less than a thousandth, and take as much longer. Of
#: very deep models, whose timelines are long, fewer.
_ORDERS, _FEW_ORDERS = 3, 2
_MANY_EVENTS = 40_000


def played(
    sink: EventSink,
    settings: AllocatorSettings,
    capacity_bytes: int | None,
    rank: int = 0,
    margin_bytes: int = 0,
) -> Prediction:
    """The prediction for one rank. `capacity_bytes` is what PyTorch can reserve on the card (None: without end);
    `margin_bytes` of it are left for what the prediction may be too low by."""
    requests = QuickRequests(sink.frees, sink.blocks, sink.sizes, sink.streams, settings)
    orders = _ORDERS if len(sink) <= _MANY_EVENTS else _FEW_ORDERS
    groups = requests.by_group(sink.phases, orders)
    peaks = {_PHASES[group]: Peak.of(each.allocated, each.values) for group, each in groups.items()}
    ran_out: tuple[Phase | None, ...] = ()
    most = max((peak.reserved_high_bytes for peak in peaks.values()), default=0)
    if capacity_bytes is not None:
        room = max(capacity_bytes - margin_bytes, 0)
        if most <= room:
            ran_out = (None,) * orders
        else:
            ends = requests.fails_at(room, orders)
            ran_out = tuple(None if at is None else _PHASES[sink.phases[at]] for at in ends)
    return Prediction.judged(rank, 0, peaks, capacity_bytes, ran_out)
