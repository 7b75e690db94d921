"""ZeRO stage 3 of DeepSpeed: parameters are partitioned too, and gathered module by module.

Source: DeepSpeed 0.19, deepspeed/runtime/zero/stage3.py, partition_parameters.py, partitioned_param_coordinator.py,
parameter_offload.py, deepspeed/runtime/comm/coalesced_collectives.py. Checked by arithmetic, as `zero`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.shards import GATHER, REDUCE, Group, alloc_all, free_all, free_grads
from oomph.predict.sharding.zero3_live import Fetches
from oomph.predict.sharding.zero_flat import ZeroOptions, trained
from oomph.predict.sink import Sink

_MASTER_BYTES = 4
_NORM_BYTES = 8


class Zero3:
    """ZeRO-3 on one rank.

    Always there: partitions of ceil(numel / ranks) of each parameter, whole parameters of up to `persistence`
    elements, one bucket of `reduce_bucket` elements, and the partitions' gradients (a flat buffer that lives as
    long as the optimizer). While a unit runs: what `Fetches` says. Gradients go into the bucket; a full one is
    copied once more to be reduced. Without a trace of two iterations DeepSpeed fetches nothing ahead; the steady
    state is played from the first step on."""

    def __init__(self, units: Sequence[Unit], sink: Sink, group: Group, options: ZeroOptions) -> None:
        self._units = units
        self._sink = sink
        self._ranks = group.ranks
        self._options = options
        self._fetches = Fetches(units, group, options)
        self._trains = [each for unit in units for each in trained(unit)]
        self._pieces = [-(-each.numel // group.ranks) for each in self._trains]
        self._partition = sum(self._pieces)
        self._sub_group = self._largest_sub_group()
        self._item = max((each.weight_bytes for each in self._trains), default=0.0)
        self._grad = self._item if options.grad_bytes is None else options.grad_bytes
        self._backward = False
        self._live: dict[int, list[int]] = {}
        self._kept: dict[int, list[int]] = {}
        self._root: list[int] = []
        self._bucket: list[int] = []
        self._masters_grad: int | None = None
        flat = UnitParameter(
            "fp32 partition", self._partition, True, _MASTER_BYTES, _MASTER_BYTES, _MASTER_BYTES
        )
        self._local = () if options.offload_optimizer or not self._partition else (flat,)

    def setup(self) -> None:
        """Partitions, masters, the bucket and the buffer of gradients."""
        options = self._options
        sizes = [-(-each.resident_bytes // self._ranks) for unit in self._units for each in unit.parameters]
        if sizes and not options.offload_parameters:
            alloc_all(self._sink, sizes, Category.PARAMETERS, "parameter partitions")
        if self._fetches.persistent:
            alloc_all(self._sink, self._fetches.persistent, Category.PARAMETERS, "persistent parameters")
        if not self._partition:
            return
        if not options.offload_optimizer:
            if self._item != _MASTER_BYTES:  # partitions in fp32 are their own masters
                size = self._sub_group * _MASTER_BYTES
                cast = self._sink.alloc(size, Category.TEMPORARIES, "partition cast to fp32")
                size = self._partition * _MASTER_BYTES
                self._sink.alloc(size, Category.OPTIMIZER_STATE, "fp32 masters")
                self._sink.free(cast)
            self._passing(self._sub_group * _MASTER_BYTES, Category.TEMPORARIES, "gradients of masters")
        if options.contiguous:
            size = int(options.reduce_bucket * (options.comm_bytes or self._item))
            self._sink.alloc(size, Category.COMMUNICATION, "gradient bucket")
        if not options.offload_optimizer:
            self._sink.alloc(int(self._partition * self._grad), Category.GRADIENTS, "gradient partitions")

    def forward_begin(self) -> None:
        """The root's first module (the embedding)."""
        self._backward = False
        self._hold_root(self._fetches.root_first)

    def forward_before(self, unit: int) -> None:
        """Fetches the unit's modules; in a recomputed forward they are there."""
        if unit == 0 or self._backward:
            return
        self._free_root()
        self._live[unit] = self._gathered(self._fetches.forward[unit])

    def forward_after(self, unit: int) -> None:
        """Releases them, but for those whose backward is near (stage3_max_reuse_distance)."""
        if unit == 0 or self._backward:
            return
        free_all(self._sink, self._live.pop(unit, ()))
        if self._fetches.kept[unit]:
            self._kept[unit] = self._gathered(self._fetches.whole[unit])
        if unit == len(self._units) - 1:
            self._hold_root(self._fetches.root_last)

    def forward_end(self) -> None:
        """The root's last module stays: its backward comes next."""

    def backward_begin(self) -> None:
        """Backward runs from here to backward_end."""
        self._backward = True

    def backward_before(self, unit: int) -> None:
        """Fetches what is not there any more."""
        if unit == 0:
            return
        self._free_root()
        if unit in self._kept:
            self._live[unit] = self._gathered(self._fetches.ahead[unit])
        else:
            self._live[unit] = self._gathered(self._fetches.backward[unit])

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """Gradients go into the bucket, parameters go."""
        if self._options.contiguous:
            free_grads(self._sink, grads)
            handles: list[int] = []
        else:
            handles = [grad.handle for grad in grads]
        if unit:
            self._fill(unit)
        free_all(self._sink, handles)
        free_all(self._sink, [*self._live.pop(unit, ()), *self._kept.pop(unit, ())])

    def backward_end(self) -> None:
        """The root's gradients, and the last bucket."""
        self._fill(0)
        self._flush()
        self._free_root()
        for handles in (*self._live.values(), *self._kept.values()):
            free_all(self._sink, handles)
        self._live, self._kept = {}, {}
        self._backward = False

    def holds_gradients(self) -> bool:
        """A gradient is copied into the bucket at once."""
        return self._options.contiguous

    def keeps_inputs(self, unit: int) -> bool:  # noqa: ARG002 - as every strategy
        """Never."""
        return False

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """One flat partition in fp32."""
        return self._local

    def step_begin(self) -> None:
        """Norms in float64, then one sub-group of `sub_group` elements at a time: flat, and in fp32."""
        if self._options.offload_optimizer or not self._partition:
            return
        self._passing(max(self._pieces) * _NORM_BYTES, Category.TEMPORARIES, "gradient norm in float64")
        copy = self._sink.alloc(int(self._sub_group * self._grad), Category.GRADIENTS, "flat gradient")
        if self._grad != _MASTER_BYTES:
            low, size = copy, self._sub_group * _MASTER_BYTES
            copy = self._sink.alloc(size, Category.GRADIENTS, "gradients in fp32")
            self._sink.free(low)
        self._masters_grad = copy

    def step_end(self) -> None:
        """The flat gradient goes."""
        if self._masters_grad is not None:
            self._sink.free(self._masters_grad)
            self._masters_grad = None

    def zero_grad(self) -> None:
        """The buffer of gradients stays."""

    def _largest_sub_group(self) -> int:
        """_create_fp16_sub_groups: a sub-group is full once it has reached its size."""
        largest = filled = 0
        for each in self._pieces:
            filled += each
            largest = max(largest, filled)
            if filled >= self._options.sub_group:
                filled = 0
        return largest

    def _gathered(self, sizes: Sequence[int]) -> list[int]:
        if not sizes:
            return []
        return alloc_all(self._sink, sizes, Category.PARAMETERS, "gathered parameters", GATHER)

    def _hold_root(self, size: int) -> None:
        self._free_root()
        if size:
            self._root = self._gathered([size])

    def _free_root(self) -> None:
        free_all(self._sink, self._root)
        self._root = []

    def _fill(self, unit: int) -> None:
        for each in reversed(trained(self._units[unit])):
            if sum(self._bucket) + each.numel > self._options.reduce_bucket:
                self._flush()
            self._bucket.append(each.numel)

    def _flush(self) -> None:
        """__avg_scatter_grads: gradients are laid together rank by rank, padded, and reduced; one gradient that ranks
        divide needs no copy."""
        bucket, self._bucket = self._bucket, []
        if not bucket:
            return
        comm = self._options.comm_bytes or self._item
        padded = sum(-(-each // self._ranks) for each in bucket)
        copies = [int(sum(bucket) * comm)] if comm != self._item else []
        if len(bucket) > 1 or bucket[0] % self._ranks:
            copies.append(int(padded * self._ranks * comm))
        if comm != self._grad:
            copies.append(int(padded * self._grad))
        free_all(
            self._sink,
            [self._sink.alloc(size, Category.COMMUNICATION, "reduced bucket", REDUCE) for size in copies],
        )

    def _passing(self, size: int, category: Category, name: str) -> None:
        self._sink.free(self._sink.alloc(size, category, name))
