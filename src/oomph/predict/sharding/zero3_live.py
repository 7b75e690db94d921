"""Which parameters of ZeRO-3 are whole on the GPU while a unit runs.

Source: DeepSpeed 0.19, partitioned_param_coordinator.py: fetch_sub_module, release_sub_module,
__params_to_release; partition_parameters.py: AllGatherCoalescedHandle. DeepSpeed fetches submodule by submodule;
here a unit takes, while it runs, the most that its submodules take at any time."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.shards import Group, for_each
from oomph.predict.sharding.zero_flat import ZeroOptions


class Fetches:
    """Bytes, by unit. `persistent`: whole parameters that stay. `forward`, `backward`: while a unit runs; under
    checkpointing its backward takes the whole unit, since what was fetched to recompute is used again soon. `ahead`:
    beside a unit that is there already. `whole`: all of a unit. `kept`: whether it stays after forward, because it is
    used again within `max_reuse` elements. `root_first`, `root_last`: of the root's first and last parameter."""

    def __init__(self, units: Sequence[Unit], group: Group, options: ZeroOptions) -> None:
        self._options = options
        self._ranks = group.ranks
        everything = [each for unit in units for each in unit.parameters]
        self.persistent = [_bytes(each) for each in everything if each.numel <= options.persistence]
        found = for_each(units, self._of)
        self.forward = [each[1] for each in found]
        self.ahead = [each[2] for each in found]
        self.whole = [each[3] for each in found]
        self.backward = [[*each[3], *each[2]] if options.recomputes else each[1] for each in found]
        self.kept = self._near([each[0] for each in found])
        root = found[0][0] if found else []
        self.root_first = _bytes(root[0]) if root else 0
        self.root_last = _bytes(root[-1]) if root else 0

    def _of(self, unit: Unit) -> tuple[list[UnitParameter], list[int], list[int], list[int]]:
        large = [each for each in unit.parameters if each.numel > self._options.persistence]
        forward: list[int] = []
        ahead: list[int] = []
        for place, each in enumerate(large):
            following = self._prefetched(large, place + 1, each.numel)
            if sum(following) > sum(ahead):
                ahead = following
            if _bytes(each) + sum(following) > sum(forward):
                forward = [_bytes(each), *following]
        return large, forward, ahead, [_bytes(each) for each in large]

    def _prefetched(self, large: Sequence[UnitParameter], first: int, available: int) -> list[int]:
        """What is fetched ahead from a place on: parameters until they are `prefetch_bucket` elements or more
        (the last may go beyond it), as long as fewer than `max_live` are there. Several are gathered in one flat
        buffer and then copied out of it. After the last parameter of the unit comes the first one of a unit
        alike."""
        limit = min(self._options.prefetch_bucket, self._options.max_live - available)
        chosen: list[UnitParameter] = []
        count = 0
        for step in range(len(large) - 1):
            if count >= limit:
                break
            each = large[(first + step) % len(large)]
            chosen.append(each)
            count += each.numel
        sizes = [_bytes(each) for each in chosen]
        return [*sizes, self._buffer(chosen)] if len(chosen) > 1 else sizes

    def _buffer(self, chosen: Sequence[UnitParameter]) -> int:
        if self._ranks == 1:
            return 0
        return sum(-(-_bytes(each) // self._ranks) for each in chosen) * self._ranks

    def _near(self, units: Sequence[Sequence[UnitParameter]]) -> list[bool]:
        """A unit's next use is its backward (its recomputation under checkpointing): all units behind it run
        forward and backward in between, with checkpointing they also run forward again."""
        passes = 3 if self._options.recomputes else 2
        kept = [False] * len(units)
        behind = sum(each.numel for each in units[0][-1:]) if units else 0
        for place in range(len(units) - 1, 0, -1):
            size = sum(each.numel for each in units[place])
            kept[place] = behind * passes < self._options.max_reuse
            behind += size
        return kept


def _bytes(each: UnitParameter) -> int:
    return int(each.numel * each.compute_bytes) if each.stored_bytes is None else each.stored_bytes
