"""Requests of a plan under several orders of addresses, quickly: the answers of orders.py, without a trace.

A plan asks for less than the replay of a recorded trace: peaks, and where memory ran out first. Under settings for
which PyTorch's rules stay simple, one plain loop gives that (quick_loop.py); everything else is left to the simulated
allocator, which needs numpy. Both give the same numbers, to the byte: tests/memory/replay/test_quick.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.address_orders import ORDERS, Orders, by_group
from oomph.memory.replay.quick_loop import Loop, Played
from oomph.memory.replay.quick_steps import Steps, steps_of


class QuickRequests:
    """Requests in columns, one entry for each event.

    `frees`: 1 for a free, 0 for an allocation. `blocks`: numbers by which a free names its allocation (one may be used
    again once it is free). `sizes_bytes`: as asked for. `settings`: what they are played with.

    Raises ValueError when the columns differ in length.
    """

    def __init__(
        self,
        frees: Sequence[int],
        blocks: Sequence[int],
        sizes_bytes: Sequence[int],
        streams: Sequence[int],
        settings: AllocatorSettings,
    ) -> None:
        if not len(frees) == len(blocks) == len(sizes_bytes) == len(streams):
            raise ValueError("The columns of requests differ in length.")
        self._columns = (frees, blocks, sizes_bytes, streams)
        self._settings = settings
        #: The most that each order reserved with memory without end, once that was played.
        self._most: list[int] = []

    @cached_property
    def _steps(self) -> Steps | None:
        return steps_of(*self._columns, self._settings)

    def by_group(self, groups: Sequence[int], orders: int = len(ORDERS)) -> dict[int, Orders]:
        """`orders_by_group` of memory/replay/orders.py, with memory without end.

        Raises ValueError when `groups` has not one entry for each event, and when `orders` is not from 1 to the number
        of `ORDERS`.
        """
        if len(groups) != len(self._columns[0]):
            raise ValueError(f"There are {len(groups)} groups for {len(self._columns[0])} events.")
        _check(orders)
        begins = [0, *(at for at in range(1, len(groups)) if groups[at] != groups[at - 1])]
        steps = self._steps
        if steps is not None:
            outcomes = self._endless(steps, orders, begins[1:])
            if outcomes is not None:
                self._most = [max(reserved for reserved, _ in stretches) for stretches, _ in outcomes]
                return by_group(groups, begins, outcomes)
        from oomph.memory.replay.orders import orders_by_group, requests_of_columns

        return orders_by_group(requests_of_columns(*self._columns), self._settings, groups, None, orders)

    def fails_at(self, capacity_bytes: int, orders: int = len(ORDERS)) -> tuple[int | None, ...]:
        """For each order the position of the request for which it had no memory, None where it came to the end.

        Raises ValueError when `orders` is not from 1 to the number of `ORDERS`.
        """
        _check(orders)
        steps = self._steps
        if steps is None:
            return self._simulated(capacity_bytes, orders)
        if steps.expandable:
            return self._simulated(capacity_bytes, 1) * orders
        known = dict(enumerate(self._most))
        return tuple(
            # Where all went well without end, and that much is there, it does again.
            None
            if known.get(number, capacity_bytes + 1) <= capacity_bytes
            else Loop(steps, capacity_bytes, driver()).play()[1]
            for number, (_, driver) in enumerate(ORDERS[:orders])
        )

    def _simulated(self, capacity_bytes: int, orders: int) -> tuple[int | None, ...]:
        from oomph.memory.replay.orders import requests_of_columns, reserved_orders

        requests = requests_of_columns(*self._columns)
        return reserved_orders(requests, self._settings, capacity_bytes, orders).fails_at

    def _endless(self, steps: Steps, orders: int, cuts: Sequence[int]) -> list[Played] | None:
        """What each order comes to with memory without end; None where a range of addresses does not last."""
        if not steps.expandable:
            return [Loop(steps, None, driver()).play(cuts) for _, driver in ORDERS[:orders]]
        loop = Loop(steps, None, None)
        played = loop.play(cuts)
        # A stream's blocks of one size class lie in one range of addresses, so orders differ in nothing.
        return None if loop.full else [played] * orders


def _check(orders: int) -> None:
    if not 1 <= orders <= len(ORDERS):
        raise ValueError(f"orders is {orders}; it can be from 1 to {len(ORDERS)}.")
