"""The same requests under several orders of addresses: between which values the reserved peak can lie.

Among free blocks of equal size PyTorch takes the one at the lowest address, and addresses come from the driver. So the
same requests can need a little more or less memory on another machine, or on the same one on another day. Which order a
driver gives cannot be known beforehand; a prediction plays several and gives the range (docs/hardware.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.layout import SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.start import Start
from oomph.memory.replay.trial import Outcome, Setup, run_trial
from oomph.memory.replay.trial_requests import Requests
from oomph.memory.timeline import Kind, Timeline, empty_timeline

#: What a row of `requests_of_columns` asks for.
ALLOC, FREE, EMPTY_CACHE = range(3)

#: Names and makers of the orders, most likely first: as Linux fills chunks, straight down, straight up as on Windows,
#: and five that follow no plan, for what lies between.
ORDERS: tuple[tuple[str, Callable[[], Driver]], ...] = (
    ("packed", Driver.packed),
    ("descending", Driver.descending),
    ("ascending", Driver.ascending),
    *((f"shuffled {seed}", partial(Driver.shuffled, seed)) for seed in range(1, 6)),
)

_ROWS = {ALLOC: Kind.ALLOC, FREE: Kind.FREE_REQUESTED, EMPTY_CACHE: Kind.SEGMENT_FREE}


@dataclass(frozen=True)
class Orders:
    """Peaks in bytes, one for each order of `names`.

    `values`: reserved. `allocated`: allocated, which differs between orders too, though less: a rest of at most 1 MiB
    that cannot be split off a block counts as allocated, and whether there is one depends on which free block was
    taken. `fails_at`: the position of the request for which an order had no memory (None: it came to the end); its
    peaks are those up to there.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    allocated: tuple[int, ...]
    fails_at: tuple[int | None, ...]

    @property
    def low(self) -> int:
        """The least that was reserved at the peak, in bytes."""
        return min(self.values)

    @property
    def high(self) -> int:
        """The most that was reserved at the peak, in bytes."""
        return max(self.values)

    @property
    def fails(self) -> bool:
        """Whether any order ran out of memory."""
        return any(position is not None for position in self.fails_at)


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
    parts: dict[int, dict[str, list[tuple[int, int]]]] = {}
    fails: dict[tuple[int, str], int] = {}
    for (name, _), outcome in zip(ORDERS, outcomes, strict=False):
        # The first stretch is what came before all of them.
        for begin, peaks in zip(begins, outcome.stretches[1:], strict=False):
            if begin < len(column):
                parts.setdefault(int(column[begin]), {}).setdefault(name, []).append(peaks)
        if outcome.fails_at is not None:
            fails[int(column[outcome.fails_at]), name] = outcome.fails_at
    return {
        group: Orders(
            names=tuple(by_name),
            values=tuple(max(reserved for reserved, _ in peaks) for peaks in by_name.values()),
            allocated=tuple(max(allocated for _, allocated in peaks) for peaks in by_name.values()),
            fails_at=tuple(fails.get((group, name)) for name in by_name),
        )
        for group, by_name in parts.items()
    }


def highest_orders(parts: Iterable[Orders]) -> Orders:
    """All parts together: of each order the most. Raises ValueError when there is none."""
    values: dict[str, int] = {}
    allocated: dict[str, int] = {}
    fails_at: dict[str, int | None] = {}
    for part in parts:
        for name, reserved, used, failed in zip(
            part.names, part.values, part.allocated, part.fails_at, strict=True
        ):
            values[name] = max(reserved, values.get(name, 0))
            allocated[name] = max(used, allocated.get(name, 0))
            fails_at[name] = failed if fails_at.get(name) is None else fails_at[name]
    if not values:
        raise ValueError("There are no orders to join.")
    return Orders(tuple(values), tuple(values.values()), tuple(allocated.values()), tuple(fails_at.values()))


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
