"""FSDP2 (`fully_shard`): parameters are divided one by one, gathered unit by unit, and gradients reduced to shards.

Source: torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py (when), _fsdp_collectives.py (what), _fsdp_param.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.fsdp2_group import Fsdp2Options, UnitSizes, sizes_of
from oomph.predict.sharding.shards import (
    GATHER,
    REDUCE,
    Group,
    alloc_all,
    for_each,
    free_all,
    free_grads,
)
from oomph.predict.sink import Sink

_COMMUNICATION, _PARAMETERS, _GRADIENTS = Category.COMMUNICATION, Category.PARAMETERS, Category.GRADIENTS


class Fsdp2:
    """FSDP2 on one rank.

    Forward of unit i: its all-gather buffer (in the pool of the copy-in stream) and its gathered parameters are made
    while the buffer of unit i - 1 is alive; then that one is freed, and the one of unit i lies beside its parameters.
    Backward of unit i: gathered parameters of i, and the buffer of unit i - 1, which is gathered ahead; then the
    gradients of i together with their reduce-scatter input, which lives until the next unit reduces.
    """

    def __init__(
        self, units: Sequence[Unit], sink: Sink, group: Group, options: Fsdp2Options | None = None
    ) -> None:
        self._sink = sink
        self._units = units
        self._options = chosen = options or Fsdp2Options()
        self._sizes = for_each(units, lambda unit: sizes_of(unit, group, chosen))
        self._alone = group.ranks == 1
        self._hybrid = group.replicas > 1
        self._backward = False
        self._micro = 0
        self._held = False
        self._order: list[int] = []
        self._pending: dict[int, int] = {}
        self._gathered: dict[int, list[int]] = {}
        self._last_buffer: int | None = None
        self._inputs: list[int] = []
        self._before_all_reduce: list[int] = []
        self._shards: dict[int, int] = {}
        self._whole: dict[int, list[int]] = {}
        self._root_grads: list[Grad] = []
        self._local: tuple[UnitParameter, ...] | None = None

    def setup(self) -> None:
        """Shards; where the model was loaded whole, unit by unit beside the whole unit."""
        whole: dict[int, list[int]] = {}
        if self._options.loaded == "device":
            whole = {number: self._load(number) for number in range(len(self._units))}
        for number in [*range(1, len(self._units)), 0]:
            loaded = whole.pop(number, []) or ([] if self._options.loaded == "meta" else self._load(number))
            if not self._options.offload:
                alloc_all(self._sink, self._sizes[number].shards, _PARAMETERS, "parameter shards")
            free_all(self._sink, loaded)

    def forward_begin(self) -> None:
        """The root is gathered."""
        self._backward = False
        self._order = []
        self._gather(0)
        self._wait(0, forward=True)

    def forward_before(self, unit: int) -> None:
        """Gathers the unit; in a recomputed forward it is there already."""
        if unit == 0:
            return
        self._gather(unit)
        self._wait(unit, forward=not self._backward)

    def forward_after(self, unit: int) -> None:
        """Frees the unit's parameters, unless they are kept for backward."""
        if unit == 0 or self._backward or not self._sizes[unit].shards:
            return
        if self._options.reshard and unit not in self._options.stays:
            self._reshard(unit)
        self._order.append(unit)

    def forward_end(self) -> None:
        """The root's parameters stay, its buffer and the last unit's do not."""
        if self._sizes[0].shards:
            if self._options.reshard_root:
                self._reshard(0)
            self._order.append(0)
        self._free_last_buffer()

    def backward_begin(self) -> None:
        """The root's pre-backward hook: it gathers the last unit ahead."""
        self._backward = True
        if self._sizes[0].shards:
            self._before(0)

    def backward_before(self, unit: int) -> None:
        """Waits for the unit's parameters, and gathers the unit before it ahead."""
        if unit and self._sizes[unit].shards:
            self._before(unit)

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """Gradients are reduced to shards, or kept whole where this micro-batch is not reduced."""
        if unit == 0:
            self._root_grads.extend(grads)  # until all of them are there
        else:
            self._after(unit, grads)

    def _after(self, unit: int, grads: Sequence[Grad]) -> None:
        sizes = self._sizes[unit]
        if unit in self._whole and grads and not self._stays_as_made(sizes):
            free_grads(self._sink, grads)  # added to the stored ones
            grads = ()
        self._reshard(unit)
        if not self._reduces:
            self._keep(unit, grads)
            return
        kept = self._whole.pop(unit, [])
        free_all(self._sink, self._inputs)
        self._inputs = []
        if not grads and not kept:
            return
        self._reduce(unit, [*kept, *(grad.handle for grad in grads)])

    def backward_end(self) -> None:
        """The root's gradients; what the last unit left is waited for and freed."""
        self._after(0, self._root_grads)
        self._root_grads = []
        free_all(self._sink, list(self._pending.values()))
        free_all(self._sink, self._inputs)
        free_all(self._sink, self._before_all_reduce)
        self._pending, self._inputs, self._before_all_reduce = {}, [], []
        self._backward = False
        self._held = bool(self._whole) and all(map(self._stays_as_made, self._sizes))
        self._micro += 1

    def holds_gradients(self) -> bool:
        """Whole gradients of an earlier micro-batch, kept as autograd made them."""
        return self._held

    def keeps_inputs(self, unit: int) -> bool:  # noqa: ARG002 - as every strategy
        """Never: the hook on inputs is a function of autograd's own, which keeps nothing."""
        return False

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """This rank's rows of each parameter that trains."""
        if self._local is None:
            local = () if self._options.offload else tuple(p for sizes in self._sizes for p in sizes.local)
            self._local = local
        return self._local

    def step_begin(self) -> None:
        """Nothing."""

    def step_end(self) -> None:
        """Nothing."""

    def zero_grad(self) -> None:
        """Frees the shards of gradients."""
        free_all(self._sink, list(self._shards.values()))
        for handles in self._whole.values():
            free_all(self._sink, handles)
        self._shards, self._whole = {}, {}
        self._micro, self._held = 0, False

    @property
    def _reduces(self) -> bool:
        options = self._options
        return not options.no_sync or self._micro >= options.accumulation - 1

    def _load(self, number: int) -> list[int]:
        """A whole unit on the GPU, before it is divided."""
        sizes = [each.resident_bytes for each in self._units[number].parameters]
        return alloc_all(self._sink, sizes, _PARAMETERS, "parameters before sharding") if sizes else []

    def _gather(self, unit: int) -> None:
        sizes = self._sizes[unit]
        if unit in self._gathered or unit in self._pending or not sizes.shards or self._alone:
            return
        cast = (
            alloc_all(self._sink, sizes.copied, _COMMUNICATION, "cast shards", GATHER) if sizes.copied else []
        )
        self._pending[unit] = self._sink.alloc(sizes.buffer, _COMMUNICATION, "all-gather buffer", GATHER)
        free_all(self._sink, cast)

    def _wait(self, unit: int, *, forward: bool) -> None:
        sizes = self._sizes[unit]
        if unit in self._gathered or not sizes.shards:
            return
        if self._alone and sizes.copied:
            self._gathered[unit] = self._cast_one_by_one(sizes)
        else:
            self._gathered[unit] = alloc_all(self._sink, sizes.gathered, _PARAMETERS, "gathered parameters")
        buffer = self._pending.pop(unit, None)
        if forward:
            # wait_for_unshard drops the state of the unit before first, but a variable of its own keeps it to its
            # end.
            self._free_last_buffer()
            self._last_buffer = buffer
        elif buffer is not None:
            self._sink.free(buffer)

    def _cast_one_by_one(self, sizes: UnitSizes) -> list[int]:
        """A group of one rank: each parameter is cast and then copied, the cast before is freed after the next
        one."""
        gathered: list[int] = []
        cast: int | None = None
        for size in sizes.gathered:
            before = cast
            cast = self._sink.alloc(size, _COMMUNICATION, "cast shards")
            if before is not None:
                self._sink.free(before)
            gathered.append(self._sink.alloc(size, _PARAMETERS, "gathered parameters"))
        if cast is not None:
            self._sink.free(cast)
        return gathered

    def _before(self, unit: int) -> None:
        self._gather(unit)
        self._wait(unit, forward=False)
        place = self._order.index(unit) if unit in self._order else 0
        if place > 0:
            self._gather(self._order[place - 1])

    def _reshard(self, unit: int) -> None:
        free_all(self._sink, self._gathered.pop(unit, ()))

    def _free_last_buffer(self) -> None:
        if self._last_buffer is not None:
            self._sink.free(self._last_buffer)
            self._last_buffer = None

    def _stays_as_made(self, sizes: UnitSizes) -> bool:
        return not sizes.upcast

    def _keep(self, unit: int, grads: Sequence[Grad]) -> None:
        """Whole gradients of a micro-batch that is not reduced, in the type of the reduction."""
        if not grads:
            return
        if self._stays_as_made(self._sizes[unit]):
            self._whole.setdefault(unit, []).extend(grad.handle for grad in grads)
            return
        kept = self._whole.setdefault(unit, [])
        for grad in grads:
            size = self._sizes[unit].reduced(grad)
            kept.append(self._sink.alloc(size, _GRADIENTS, "whole gradients, accumulated"))
            self._sink.free(grad.handle)

    def _reduce(self, unit: int, whole: Sequence[int]) -> None:
        sizes = self._sizes[unit]
        self._inputs.append(self._sink.alloc(sizes.reduce_input, _COMMUNICATION, "reduce-scatter buffer"))
        free_all(self._sink, whole)
        output = self._sink.alloc(sizes.reduce_output, _GRADIENTS, "gradient shards", REDUCE)
        if sizes.stored_output is not None:
            stored = self._sink.alloc(sizes.stored_output, _GRADIENTS, "gradient shards", REDUCE)
            if self._hybrid:  # kept until the sum over replicas is surely done
                self._before_all_reduce.append(output)
            else:
                self._sink.free(output)
            output = stored
        if self._options.offload or unit in self._shards:  # copied to the host, or added to the stored shard
            if output not in self._before_all_reduce:
                self._sink.free(output)
        else:
            self._shards[unit] = output
