"""A composed timeline through the simulated allocator: what is reserved in each phase, and whether PyTorch would fail.

Needs numpy (memory/replay); everything else of a plan does without.
"""

from __future__ import annotations

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.prediction import Peak, Prediction
from oomph.memory.replay.orders import ORDERS, orders_by_group, requests_of_columns, reserved_orders
from oomph.phases import Phase
from oomph.predict.event_sink import EventSink

_PHASES = tuple(Phase)
#: Events beyond which fewer orders of addresses are played, so that an answer takes about a second.
_MANY_EVENTS = 40_000
_FEW_ORDERS = 3


def played(
    sink: EventSink, settings: AllocatorSettings, capacity_bytes: int | None, rank: int, device: int = 0
) -> Prediction:
    """The prediction for one rank. `capacity_bytes` is what PyTorch can reserve on the card (None: without end)."""
    requests = requests_of_columns(sink.frees, sink.blocks, sink.sizes, sink.streams)
    orders = len(ORDERS) if len(sink) <= _MANY_EVENTS else _FEW_ORDERS
    groups = orders_by_group(requests, settings, sink.phases, None, orders)
    peaks = {_PHASES[group]: Peak.of(each.allocated, each.values) for group, each in groups.items()}
    ran_out: tuple[Phase | None, ...] = ()
    most = max((peak.reserved_high_bytes for peak in peaks.values()), default=0)
    if capacity_bytes is not None:
        if most <= capacity_bytes:
            ran_out = (None,) * orders
        else:
            limited = reserved_orders(requests, settings, capacity_bytes, orders)
            ran_out = tuple(None if at is None else _PHASES[sink.phases[at]] for at in limited.fails_at)
    return Prediction.judged(rank, device, peaks, capacity_bytes, ran_out)
