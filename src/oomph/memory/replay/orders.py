"""The same requests under several orders of addresses: between which values the reserved peak can lie.

Among free blocks of equal size PyTorch takes the one at the lowest address, and addresses come from the driver. So the
same requests can need a little more or less memory on another machine, or on the same one on another day. Which order a
driver gives cannot be known beforehand; a prediction plays several and gives the range (docs/hardware.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oomph.memory.allocator.layout import SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.address_orders import ORDERS, Orders, by_group, highest_orders
from oomph.memory.replay.start import Start
from oomph.memory.replay.trial import Outcome, Setup, run_trial
from oomph.memory.replay.trial_requests import Requests
from oomph.memory.timeline import Kind, Timeline, empty_timeline

__all__ = [
    "ALLOC",
    "EMPTY_CACHE",
    "FREE",
    "ORDERS",
    "Orders",
    "highest_orders",
    "orders_by_group",
    "requests_of",
    "requests_of_columns",
    "reserved_orders",
]

#: What a row of `requests_of_columns` asks for.
ALLOC, FREE, EMPTY_CACHE = range(3)

_ROWS = {ALLOC: Kind.ALLOC, FREE: Kind.FREE_REQUESTED, EMPTY_CACHE: Kind.SEGMENT_FREE}


def reserved_orders(
    requests: Requests,
    settings: AllocatorSettings,
    capacity_bytes: int | None = None,
    orders: int = len(ORDERS),
    *,
    recorded_capacity_bytes: int | None = None,
) -> Orders:
    """Plays `requests` under the first `orders` of `ORDERS`.

    `capacity_bytes` is what PyTorch may reserve in all (None: without end), `recorded_capacity_bytes` what it could
    when the requests were recorded (None: the same). Recorded releases of cached memory that a lack of memory explains
    are left to each order; all others were the user's, and are repeated where they were. A recorded failure fails
    again or, where there is memory for it, ends the play with that request served.

    Raises ValueError when `orders` is not from 1 to the number of `ORDERS`.
    """
    outcomes = _play(requests, settings, capacity_bytes, orders, recorded_capacity_bytes, ())
    return Orders(
        names=tuple(name for name, _ in ORDERS[:orders]),
        values=tuple(outcome.peak_reserved_bytes for outcome in outcomes),
        allocated=tuple(outcome.peak_allocated_bytes for outcome in outcomes),
        fails_at=tuple(outcome.fails_at for outcome in outcomes),
    )


def orders_by_group(
    requests: Requests,
    settings: AllocatorSettings,
    groups: Sequence[int],
    capacity_bytes: int | None = None,
    orders: int = len(ORDERS),
    *,
    recorded_capacity_bytes: int | None = None,
) -> dict[int, Orders]:
    """The peaks of parts of the requests, such as phases, in the order in which they are first entered.

    `groups` says for each event of the requests' timeline which part it belongs to; a part may be left and entered
    again. What is held when a part is entered belongs to its peak (a block that the very next event gives back counts
    where it was asked for only). What lies before the requests' `peak_from` is left
    out, and so are parts that no order reached; an order that ran out before a part is not among the names of that
    part. `fails_at` stands in the part in which the order ran out. The rest is as in `reserved_orders`.

    Raises ValueError also when `groups` has not one entry for each event.
    """
    if len(groups) != len(requests.timeline):
        raise ValueError(f"There are {len(groups)} groups for {len(requests.timeline)} events.")
    column = np.asarray(groups, np.int64)
    changes = (np.flatnonzero(np.diff(column)) + 1).tolist()
    begins = [requests.peak_from, *(change for change in changes if change > requests.peak_from)]
    outcomes = _play(requests, settings, capacity_bytes, orders, recorded_capacity_bytes, begins)
    # The first stretch is what came before all of them.
    return by_group(groups, begins, ((outcome.stretches[1:], outcome.fails_at) for outcome in outcomes))


def _play(
    requests: Requests,
    settings: AllocatorSettings,
    capacity: int | None,
    orders: int,
    recorded_capacity: int | None,
    cuts: Sequence[int],
) -> list[Outcome]:
    if not 1 <= orders <= len(ORDERS):
        raise ValueError(f"orders is {orders}; it can be from 1 to {len(ORDERS)}.")
    real = capacity if recorded_capacity is None else recorded_capacity
    return [
        run_trial(requests, Setup(settings, capacity, real_capacity_bytes=real, driver=driver, cuts=cuts))
        for _, driver in ORDERS[:orders]
    ]


def requests_of(
    timeline: Timeline,
    window: tuple[int, int] | None = None,
    start: Start | None = None,
    final: Sequence[SegmentState] = (),
) -> Requests:
    """What a timeline asked of the allocator: its ALLOC and FREE events, and where cached memory was given back.

    `window` (begin, end): events from `end` on are left out, and peaks count from `begin` on; all before it is played,
    since what the cache holds at `begin` comes from there. `start`: what was held before the first event (None:
    nothing). `final` are the segments at the end; they tell private pools where events do not name any.

    Raises ValueError for a window that does not lie within the timeline.
    """
    begin, end = (0, len(timeline)) if window is None else window
    if not 0 <= begin <= end <= len(timeline):
        raise ValueError(f"The window {begin} to {end} does not lie within {len(timeline)} events.")
    played = timeline if end == len(timeline) else timeline.part(slice(0, end))
    if start is None:
        start = Start(completions=bool(np.any(played.kind == Kind.FREE_COMPLETED)))
    return Requests(played, start, final, peak_from=begin)


def requests_of_columns(
    kinds: Sequence[int], blocks: Sequence[int], sizes_bytes: Sequence[int], streams: Sequence[int]
) -> Requests:
    """Requests without a timeline, in order: `kinds` are ALLOC, FREE and EMPTY_CACHE of this module, `blocks` numbers
    by which a FREE names its ALLOC (a number may be used again once it is free), `sizes_bytes` as asked for.

    Raises ValueError when the columns differ in length, or a kind is none of the three.
    """
    if not len(kinds) == len(blocks) == len(sizes_bytes) == len(streams):
        raise ValueError("The columns of requests differ in length.")
    if not set(kinds) <= set(_ROWS):
        raise ValueError("A request is ALLOC, FREE or EMPTY_CACHE.")
    if not len(kinds):
        return requests_of(empty_timeline())
    count = len(kinds)
    kind = np.array([_ROWS[each] for each in kinds], np.int8)
    # A release of nothing: it marks the place, and says nothing on how full the device was.
    sizes = np.where(kind == Kind.SEGMENT_FREE, 0, np.array(sizes_bytes, np.int64))
    return requests_of(
        Timeline(
            kind=kind,
            address=np.array(blocks, np.int64),
            size_bytes=sizes,
            time_us=np.full(count, -1, np.int64),
            stream=np.array(streams, np.int64),
            pool=np.full(count, -1, np.int32),
        )
    )
