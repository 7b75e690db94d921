"""Where each parameter lies in ZeRO's flat buffers, and its settings.

Source: DeepSpeed 0.19, deepspeed/runtime/zero/stage_1_and_2.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.shards import Group, pieces

#: Partitions begin at multiples of 4 bytes: nccl_start_alignment_factor, in elements of 2 bytes.
_ALIGNMENT = 2


@dataclass(frozen=True)
class ZeroOptions:
    """Settings as DeepSpeed's; sizes of buckets and thresholds are elements. `stage`: 1 or 2 (3: `zero3`).
    `offload_optimizer`, `offload_parameters`: to host or NVMe, which is the same on the GPU. `comm_bytes`: per
    element, of the reduction (None: as the parameters). `grad_bytes`: of the stored partitions of gradients
    under stage 3 (None: as the parameters). `recomputes`: blocks are checkpointed. `flatten_on_gpu`: the flat
    copy is made beside the parameters (DeepSpeed 0.19 on, where there is room; before, by way of the host)."""

    stage: int = 2
    reduce_bucket: int = 500_000_000
    prefetch_bucket: int = 50_000_000
    max_live: int = 1_000_000_000
    max_reuse: int = 1_000_000_000
    persistence: int = 100_000
    sub_group: int = 1_000_000_000
    contiguous: bool = True
    overlap: bool = False
    comm_bytes: float | None = None
    grad_bytes: float | None = None
    offload_optimizer: bool = False
    offload_parameters: bool = False
    accumulation: int = 1
    recomputes: bool = False
    flatten_on_gpu: bool = False


@dataclass(frozen=True)
class Placed:
    """A parameter that trains: elements, and the first and last partition that it lies in."""

    numel: int
    first: int
    last: int


@dataclass(frozen=True)
class FlatLayout:
    """The flat buffer of all that trains: `numel` elements with padding, of `item` bytes; `partition` elements
    are each rank's. `placed`: the parameters of each unit that train. `own`: elements of all parameters that
    touch this rank's partition; `own_piece`: of the largest piece of one in it; `largest`: of the largest
    parameter."""

    numel: int
    item: float
    partition: int
    placed: tuple[tuple[Placed, ...], ...]
    own: int
    own_piece: int
    largest: int

    @property
    def partition_bytes(self) -> int:
        """This rank's partition as the parameters are stored."""
        return int(self.partition * self.item)


def trained(unit: Unit) -> list[UnitParameter]:
    """The parameters of a unit that train and have elements."""
    return [each for each in unit.parameters if each.trainable and each.numel]


def layout(units: Sequence[Unit], group: Group) -> FlatLayout:
    """Parameters one after another in the order of units, padded at the end to 2 elements for each rank. (In a
    model the root's last parameters come last; which partition they lie in hardly matters.)"""
    step = _ALIGNMENT * group.ranks
    by_unit = [trained(unit) for unit in units]
    numel = pieces(sum(each.numel for unit in by_unit for each in unit), step) * step
    partition = numel // group.ranks
    low, high = group.rank * partition, (group.rank + 1) * partition
    own = own_piece = start = 0
    placed: list[tuple[Placed, ...]] = []
    for unit in by_unit:
        found = []
        for each in unit:
            end = start + each.numel
            found.append(Placed(each.numel, start // partition, (end - 1) // partition))
            inside = min(end, high) - max(start, low)
            if inside > 0:
                own += each.numel
                own_piece = max(own_piece, inside)
            start = end
        placed.append(tuple(found))
    sizes = [(each.numel, each.weight_bytes) for unit in by_unit for each in unit]
    item = max((weight for _, weight in sizes), default=0.0)
    largest = max((count for count, _ in sizes), default=0)
    return FlatLayout(numel, item, partition, tuple(placed), own, own_piece, largest)
