"""DistributedDataParallel: whole parameters, and buckets into which gradients are copied for their sum over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.none import Unsharded
from oomph.predict.sharding.shards import alloc_all, free_all, free_grads, trainable
from oomph.predict.sink import Sink, rounded
from oomph.units import MIB

#: kDefaultFirstBucketBytes in torch/csrc/distributed/c10d/reducer.hpp; only where the cap is the default.
FIRST_BUCKET_BYTES = MIB
DEFAULT_BUCKET_BYTES = 25 * MIB
#: DistributedDataParallel.broadcast_bucket_size (torch/nn/parallel/distributed.py): parameters are sent from rank 0
#: in flat copies of this size, of which two are alive at once (max_in_flight in
#: torch/csrc/distributed/c10d/comm.cpp).
BROADCAST_BYTES = 250 * MIB


def buckets(sizes_bytes: Iterable[int], limits_bytes: Sequence[int]) -> list[int]:
    """Bytes of each bucket: tensors in their order, a bucket is full as soon as it has reached its limit; the last
    limit holds for all that follow (compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp)."""
    found: list[int] = []
    filled = 0
    for size in sizes_bytes:
        filled += size
        if filled >= limits_bytes[min(len(found), len(limits_bytes) - 1)]:
            found.append(filled)
            filled = 0
    return [*found, filled] if filled else found


class Ddp(Unsharded):
    """DDP.

    Buckets take as much as all gradients. Until the first backward there is one of them, then they are made
    anew, in the order in which gradients come. `as_views` (gradient_as_bucket_view): a gradient is copied into
    its bucket and freed, so gradients take nothing beside buckets. `no_sync`: gradients of the micro-batches of
    `accumulation` stay where autograd made them until the last one, also where they would be views: then it
    copies them, and both are there."""

    def __init__(
        self,
        units: Sequence[Unit],
        sink: Sink,
        *,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        as_views: bool = False,
        accumulation: int = 1,
        no_sync: bool = False,
    ) -> None:
        super().__init__(units, sink)
        default = bucket_bytes == DEFAULT_BUCKET_BYTES
        self._limits = (FIRST_BUCKET_BYTES, bucket_bytes) if default else (bucket_bytes,)
        self._as_views = as_views
        self._accumulation = accumulation
        self._no_sync = no_sync and accumulation > 1
        self._micro = 0
        self._buckets: list[int] = []
        self._synced = self._rebuilt = False
        #: With views, gradients of micro-batches that were not reduced, by unit.
        self._plain: dict[int, list[int]] = {}

    def setup(self) -> None:
        """Parameters on the GPU, rank 0's sent to all, and the first bucket: all gradients."""
        super().setup()
        self._broadcast()
        self._make_buckets(_by_dtype(trainable(self._units), ()))

    def forward_begin(self) -> None:
        """The first forward after a backward that was reduced makes the buckets anew."""
        if self._synced and not self._rebuilt:
            self._rebuilt = True
            old = self._buckets
            # Gradients of this step that are views keep the old bucket until they have been copied into the new ones.
            kept = self._as_views and self._held
            if not kept:
                free_all(self._sink, old)
            in_order = [each for unit in reversed(self._units) for each in reversed(unit.parameters)]
            self._make_buckets(_by_dtype([each for each in in_order if each.trainable], self._limits))
            if kept:
                free_all(self._sink, old)

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """Gradients are copied into buckets, or stay."""
        if not self._as_views:
            super().backward_after(unit, grads)
        elif self._reduces:
            free_grads(self._sink, grads)
            if unit:
                free_all(self._sink, self._plain.pop(unit, ()))
        elif self._held:
            free_grads(self._sink, grads)
        else:
            self._plain.setdefault(unit, []).extend(grad.handle for grad in grads)

    def backward_end(self) -> None:
        """Buckets are reduced in place (NCCL works within them)."""
        super().backward_end()
        if self._as_views and self._reduces:
            free_all(self._sink, self._plain.pop(0, ()))
        self._synced = self._synced or self._reduces
        self._micro += 1

    def holds_gradients(self) -> bool:
        """True also where each gradient is copied into its bucket at once and freed."""
        return super().holds_gradients() or (self._as_views and self._reduces)

    def zero_grad(self) -> None:
        """Frees gradients; buckets stay."""
        super().zero_grad()
        for handles in self._plain.values():
            free_all(self._sink, handles)
        self._plain = {}
        self._micro = 0

    @property
    def _reduces(self) -> bool:
        return not self._no_sync or self._micro >= self._accumulation - 1

    def _broadcast(self) -> None:
        sizes = [each.resident_bytes for unit in self._units for each in unit.parameters]
        alive: list[int] = []
        for size in buckets(sizes, (BROADCAST_BYTES,)):
            if len(alive) == 2:
                self._sink.free(alive.pop(0))
            alive.append(self._sink.alloc(size, Category.COMMUNICATION, "broadcast of parameters"))
        free_all(self._sink, alive)

    def _make_buckets(self, sizes: Sequence[int]) -> None:
        self._buckets = alloc_all(self._sink, sizes, Category.COMMUNICATION, "DDP buckets") if sizes else []


def _by_dtype(parameters: Sequence[UnitParameter], limits: Sequence[int]) -> list[int]:
    """Bytes of buckets; tensors of different types share none. No limits: one for each type."""
    found: list[int] = []
    for item in sorted({each.grad_bytes for each in parameters}, reverse=True):
        sizes = [int(each.numel * item) for each in parameters if each.grad_bytes == item]
        found.extend(buckets(sizes, limits) if limits else [sum(sizes)])
    return [rounded(size) for size in found]
