"""Columns of requests, prepared once for the loop that plays them under several orders of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import MIN_BLOCK_BYTES, SMALL_BYTES, ceil_to, round_size, segment_size

#: Sizes and addresses are counted in units of this, which all of them are multiples of.
UNIT_BYTES = MIN_BLOCK_BYTES
#: A free block is one number: its size above this many bits, its address below. So numbers are in the order in which
#: PyTorch looks through free blocks.
ADDRESS_BITS = 52
#: A free block from this size on (8 TiB, more than any device has) is the rest of a range of addresses.
ENDLESS = 1 << 34

#: What allocations of one size and stream have in common, in units: the place of their free blocks in `Steps.homes`;
#: the number of the smallest free block that fits; free blocks below the next number are handed out whole; what to
#: take off the number of a free block to have that of its rest; the size; what is asked of the driver for one.
Request: TypeAlias = "tuple[int, int, int, int, int, int]"


@dataclass
class Steps:
    """What is done, in order.

    `requests`: of an allocation its request, None for a free. `blocks`: the allocation that it makes or frees,
    numbered from 0. `positions`: which event it is. `paired`: positions of frees of what the event before asked for; a
    stretch ends behind both (as in trial_requests.py). `sizes`, `places`: of each allocation the size in units and the
    place of its free blocks in `homes`, which are (stream, whether small). `page`: units in which a range of the large
    ones grows, where `expandable`.
    """

    expandable: bool
    page: int
    requests: list[Request | None] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    paired: set[int] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    homes: dict[tuple[int, bool], int] = field(default_factory=dict)


def steps_of(
    frees: Sequence[int],
    blocks: Sequence[int],
    sizes_bytes: Sequence[int],
    streams: Sequence[int],
    settings: AllocatorSettings,
) -> Steps | None:
    """The columns of `QuickRequests` as steps; None where the loop does not know the settings (a largest size that is
    split, a cap on memory, by which garbage is collected too) or a size is beyond it. Frees of what is not there are
    left out, and so is what asks for no bytes."""
    if settings.max_split_size_bytes is not None or settings.fraction is not None:
        return None
    steps = Steps(settings.expandable_segments, settings.large_segment_size_bytes // UNIT_BYTES)
    requests, numbers, positions = steps.requests, steps.blocks, steps.positions
    known: dict[tuple[int, int], Request] = {}
    live: dict[int, int] = {}
    last = -1
    for position, (free, block, size, stream) in enumerate(
        zip(frees, blocks, sizes_bytes, streams, strict=True)
    ):
        if free:
            number = live.pop(block, -1)
            if number < 0:
                last = -1
                continue
            if number == last:
                steps.paired.add(position)
            request = None
            last = -1
        else:
            request = known.get((size, stream))
            if request is None:
                request = known[size, stream] = _request(steps, size, stream, settings)
            if not 0 < request[4] < ENDLESS:
                if request[4]:
                    return None
                live.pop(block, None)
                continue
            number = last = live[block] = len(steps.sizes)
            steps.sizes.append(request[4])
            steps.places.append(request[0])
        requests.append(request)
        numbers.append(number)
        positions.append(position)
    return steps


def _request(steps: Steps, size_bytes: int, stream: int, settings: AllocatorSettings) -> Request:
    """One of no bytes has the size 0."""
    if size_bytes <= 0:
        return (0, 0, 0, 0, 0, 0)
    rounded = round_size(size_bytes, settings.roundup_power2_divisions, settings.least_divisions)
    rounded = ceil_to(rounded, UNIT_BYTES)
    small = rounded <= SMALL_BYTES
    home = steps.homes.setdefault((stream, small), len(steps.homes))
    size = rounded // UNIT_BYTES
    least = size << ADDRESS_BITS
    # A rest is split off from 512 bytes on, in the pool of large blocks without expandable segments above 1 MiB.
    rest = 1 if small or steps.expandable else SMALL_BYTES // UNIT_BYTES + 1
    segment = segment_size(rounded, settings.large_segment_size_bytes) // UNIT_BYTES
    return (home, least, (size + rest) << ADDRESS_BITS, least - size, size, segment)
