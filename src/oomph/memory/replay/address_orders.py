"""The orders of addresses that are played, and what came of each.

Without numpy, which the process of a plan need not load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from oomph.memory.allocator.driver import Driver

#: Names and makers of the orders, most likely first: as Linux fills chunks, straight down, straight up as on Windows,
#: and five that follow no plan, for what lies between.
ORDERS: tuple[tuple[str, Callable[[], Driver]], ...] = (
    ("packed", Driver.packed),
    ("descending", Driver.descending),
    ("ascending", Driver.ascending),
    *((f"shuffled {seed}", partial(Driver.shuffled, seed)) for seed in range(1, 6)),
)


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


def by_group(
    groups: Sequence[int],
    begins: Sequence[int],
    outcomes: Iterable[tuple[Sequence[tuple[int, int]], int | None]],
) -> dict[int, Orders]:
    """The peaks of each group of events, from those of the stretches that begin at `begins`.

    `groups` has one entry for each event. An outcome, one for each of the first `ORDERS`, is the peaks (reserved,
    allocated) of each stretch as far as the order came, and the position at which it ran out.
    """
    parts: dict[int, dict[str, list[tuple[int, int]]]] = {}
    fails: dict[tuple[int, str], int] = {}
    for (name, _), (stretches, fails_at) in zip(ORDERS, outcomes, strict=False):
        for begin, peaks in zip(begins, stretches, strict=False):
            if begin < len(groups):
                parts.setdefault(int(groups[begin]), {}).setdefault(name, []).append(peaks)
        if fails_at is not None:
            fails[int(groups[fails_at]), name] = fails_at
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
