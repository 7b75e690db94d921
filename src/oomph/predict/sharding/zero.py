"""ZeRO stages 1 and 2 of DeepSpeed: whole parameters, partitioned fp32 masters, states and (stage 2) gradients.

Source: DeepSpeed 0.19, deepspeed/runtime/zero/stage_1_and_2.py. There is no trace to compare with (DeepSpeed's
engine is not driven on fake tensors); what is here follows the source line by line and is checked by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.shards import REDUCE, Group, alloc_all, free_all, free_grads
from oomph.predict.sharding.zero_flat import Placed, ZeroOptions, layout, trained
from oomph.predict.sink import Sink

_MASTER_BYTES = 4
#: get_grad_norm_direct takes the norm of each gradient in float64.
_NORM_BYTES = 8


class Zero:
    """ZeRO-1 and ZeRO-2 on one rank.

    Stage 2 copies each gradient into a bucket of `reduce_bucket` elements, which has its full size however small
    the model is, and there are two with overlap_comm; a full bucket is reduced (through a flat copy where it
    belongs to more than one rank), and what is this rank's is copied to its partition. Stage 1 keeps whole
    gradients to the end of the last micro-batch. The step makes a flat copy of the partition and casts it to
    fp32."""

    def __init__(self, units: Sequence[Unit], sink: Sink, group: Group, options: ZeroOptions) -> None:
        self._units = units
        self._sink = sink
        self._rank = group.rank
        self._options = options
        self._flat = layout(units, group)
        self._buckets: list[int] = []
        self._in_bucket: list[Placed] = []
        self._elements = 0
        self._micro = 0
        self._whole: list[int] = []
        self._waiting: list[tuple[int, Placed]] = []
        self._partition: int | None = None
        self._new_partition: int | None = None
        self._masters_grad: int | None = None
        flat = _masters(self._flat.partition)
        self._local = () if options.offload_optimizer or not self._flat.partition else (flat,)

    def setup(self) -> None:
        """Parameters, flat copies of them, and this rank's masters."""
        for unit in self._units:
            frozen = [each.resident_bytes for each in unit.parameters if not each.trainable]
            if frozen:
                alloc_all(self._sink, frozen, Category.PARAMETERS, "frozen parameters")
        sizes = [each.resident_bytes for unit in self._units for each in trained(unit)]
        if not sizes:
            return
        loaded = alloc_all(self._sink, sizes, Category.PARAMETERS, "parameters before flattening")
        if not self._options.flatten_on_gpu:
            free_all(self._sink, loaded)
        self._sink.alloc(int(self._flat.numel * self._flat.item), Category.PARAMETERS, "parameters")
        if self._options.flatten_on_gpu:
            free_all(self._sink, loaded)
        self._make_masters()

    def forward_begin(self) -> None:
        """Nothing."""

    def forward_before(self, unit: int) -> None:
        """Nothing."""

    def forward_after(self, unit: int) -> None:
        """Nothing."""

    def forward_end(self) -> None:
        """Nothing."""

    def backward_begin(self) -> None:
        """The buckets, which the first gradient makes (setup_buckets)."""
        if self._options.contiguous and not self._buckets and self._flat.numel:
            size = int(self._options.reduce_bucket * self._flat.item)
            count = 2 if self._options.overlap else 1
            self._buckets = alloc_all(self._sink, [size] * count, Category.COMMUNICATION, "gradient bucket")

    def backward_before(self, unit: int) -> None:
        """Nothing."""

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """Gradients go into the bucket, or stay."""
        if not self._reduces:
            if self._micro:
                free_grads(self._sink, grads)  # added to the stored ones
            else:
                self._whole.extend(grad.handle for grad in grads)
            return
        if self._options.contiguous:
            free_grads(self._sink, grads)
            if unit:
                self._fill_unit(unit)
            return
        by_place = dict(zip(map(id, trained(self._units[unit])), self._flat.placed[unit], strict=True))
        for grad in grads:
            self._fill(by_place[id(grad.parameter)])
            self._waiting.append((grad.handle, by_place[id(grad.parameter)]))

    def backward_end(self) -> None:
        """The last bucket; under stage 1 all of them, in the last micro-batch."""
        last = self._micro >= self._options.accumulation - 1
        if self._reduces and self._options.contiguous:
            self._fill_unit(0)
        if self._options.stage == 1 and last and self._options.contiguous:
            # Each gradient is freed when it has been copied into the bucket, before anything else is made.
            free_all(self._sink, self._whole)
            self._whole = []
            if not self._reduces:
                for each in (each for unit in self._flat.placed for each in unit):
                    self._fill(each)
        self._flush()
        if self._reduces or last:
            free_all(self._sink, self._buckets)
            self._buckets = []
        self._add_partitions()
        self._micro += 1

    def holds_gradients(self) -> bool:
        """Where a gradient is copied into a bucket at once, or added to a stored one."""
        return self._options.contiguous if self._reduces else self._micro > 0

    def keeps_inputs(self, unit: int) -> bool:  # noqa: ARG002 - as every strategy
        """Never."""
        return False

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """One flat partition in fp32."""
        return self._local

    def step_begin(self) -> None:
        """Norms in float64, one gradient after another; the flat gradient of the partition, in fp32."""
        flat = self._flat
        if self._options.offload_optimizer or not flat.partition:
            return
        self._passing(flat.own_piece * _NORM_BYTES, Category.TEMPORARIES, "gradient norm in float64")
        copy = self._sink.alloc(flat.partition_bytes, Category.GRADIENTS, "flat gradient")
        if flat.item != _MASTER_BYTES:
            low, size = copy, flat.partition * _MASTER_BYTES
            copy = self._sink.alloc(size, Category.GRADIENTS, "gradients in fp32")
            self._sink.free(low)
        self._masters_grad = copy
        self._free_partition()
        free_all(self._sink, self._whole)
        self._whole = []

    def step_end(self) -> None:
        """The flat gradient goes. Parameters are gathered in place."""
        if self._masters_grad is not None:
            self._sink.free(self._masters_grad)
            self._masters_grad = None

    def zero_grad(self) -> None:
        """What is left of gradients."""
        free_all(self._sink, self._whole)
        self._whole = []
        self._free_partition()
        self._micro = 0

    @property
    def _reduces(self) -> bool:
        """Whether gradients are reduced as they come; stage 1 does so with overlap_comm in the last micro-batch."""
        if self._options.stage == 1:
            return self._options.overlap and self._micro >= self._options.accumulation - 1
        return True

    def _make_masters(self) -> None:
        flat = self._flat
        clone = self._sink.alloc(flat.partition_bytes, Category.TEMPORARIES, "partition of parameters")
        if self._options.offload_optimizer:
            self._sink.free(clone)
            size = int(flat.largest * flat.item)
            self._sink.alloc(size, Category.COMMUNICATION, "gradient on its way to the host")
            return
        size = flat.partition * _MASTER_BYTES
        self._sink.alloc(size, Category.OPTIMIZER_STATE, "fp32 masters")
        self._sink.free(clone)
        self._passing(size, Category.TEMPORARIES, "gradients of masters")  # initialize_optimizer_states

    def _fill_unit(self, unit: int) -> None:
        for each in reversed(self._flat.placed[unit]) if self._flat.placed else ():
            self._fill(each)

    def _fill(self, placed: Placed) -> None:
        if self._elements + placed.numel > self._options.reduce_bucket:
            self._flush()
        self._elements += placed.numel
        self._in_bucket.append(placed)

    def _flush(self) -> None:
        """reduce_ipg_grads."""
        bucket, self._in_bucket = self._in_bucket, []
        elements, self._elements = self._elements, 0
        if not bucket:
            return
        flat = self._flat
        comm = self._options.comm_bytes
        several = len({place for each in bucket for place in (each.first, each.last)}) > 1
        copies = []
        if several or not self._options.contiguous:
            copies.append(int(elements * flat.item))
        if comm is not None and comm != flat.item:
            copies.append(int(elements * comm))
        made = [self._sink.alloc(size, Category.COMMUNICATION, "reduced bucket", REDUCE) for size in copies]
        free_all(self._sink, made)
        own = [each for each in bucket if each.first <= self._rank <= each.last]
        if own and self._options.offload_optimizer:
            largest = max(each.numel for each in own)
            self._passing(largest * _NORM_BYTES, Category.TEMPORARIES, "gradient norm in float64")
        elif own and self._options.contiguous and self._new_partition is None:
            size = int(flat.own * flat.item)
            self._new_partition = self._sink.alloc(size, Category.GRADIENTS, "gradient partition")
        for handle, placed in self._waiting:
            kept = placed.first <= self._rank <= placed.last and not self._options.offload_optimizer
            if kept and not self._micro:
                self._whole.append(handle)
            else:
                self._sink.free(handle)
        self._waiting = []

    def _add_partitions(self) -> None:
        """The partition of a later micro-batch is made beside the first one, and added to it."""
        new, self._new_partition = self._new_partition, None
        if new is not None and self._partition is not None:
            self._sink.free(new)
        elif new is not None:
            self._partition = new

    def _free_partition(self) -> None:
        if self._partition is not None:
            self._sink.free(self._partition)
            self._partition = None

    def _passing(self, size: int, category: Category, name: str) -> None:
        self._sink.free(self._sink.alloc(size, category, name))


def _masters(partition: int) -> UnitParameter:
    """What the optimizer steps: a flat vector in fp32."""
    return UnitParameter("fp32 partition", partition, True, _MASTER_BYTES, _MASTER_BYTES, _MASTER_BYTES)
