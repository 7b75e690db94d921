"""FSDP1 (`FullyShardedDataParallel`): flat parameters, gathered unit by unit, and whole gradients reduced to shards.

Source: torch/distributed/fsdp/_runtime_utils.py (when), _flat_param.py (what).
"""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.fsdp1_flat import Flat, Fsdp1Options, flats_of
from oomph.predict.sharding.shards import CAST, GATHER, REDUCE, Group, alloc_all, for_each, free_all
from oomph.predict.sink import Sink

_COMMUNICATION, _PARAMETERS, _GRADIENTS = Category.COMMUNICATION, Category.PARAMETERS, Category.GRADIENTS
#: A flat parameter: its unit, and its place in it.
_Key = tuple[int, int]


class Fsdp1:
    """FSDP1 on one rank.

    The root is gathered from the first forward to the end of backward (_post_forward_reshard: `not
    state._is_root`); of the other units the one that runs, in backward also the one that is gathered ahead. A
    flat parameter's gradients are joined in one (the backward of the split into views), which is cast, padded
    and reduced to a shard."""

    def __init__(
        self, units: Sequence[Unit], sink: Sink, group: Group, options: Fsdp1Options | None = None
    ) -> None:
        self._sink = sink
        self._options = options = options or Fsdp1Options()
        self._flats = for_each(units, lambda unit: flats_of(unit, group, options))
        self._sharded = options.strategy != "no_shard"
        self._prefetch = "none" if options.nested else options.prefetch
        self._backward = self._started = self._trained = False
        self._micro = 0
        #: Units as their forwards ended, and those whose backward has not begun (_needs_pre_backward_unshard).
        self._order: list[int] = []
        self._needed: set[int] = set()
        self._gathered: dict[_Key, int] = {}
        self._whole: dict[_Key, int] = {}
        self._stored: dict[_Key, int] = {}
        #: NO_SHARD: whole gradients that have been reduced, and so are in the type of the parameters.
        self._reduced: set[_Key] = set()
        #: Frozen units that wait for the unit before; gradients that wait for the next forward; a unit's backward.
        self._late: list[_Key] = []
        self._dropped: list[int] = []
        self._waiting: tuple[int, tuple[Grad, ...]] | None = None
        self._root_grads: list[Grad] = []
        self._local: tuple[UnitParameter, ...] | None = None

    def setup(self) -> None:
        """Each unit comes whole, is copied into a flat parameter, and a shard is cut out; the root last."""
        order = [*range(1, len(self._flats)), 0]
        loaded = {unit: self._load(unit) for unit in order} if self._options.loaded == "device" else {}
        for unit in order:
            parts = loaded.get(unit) or self._load(unit)
            for flat, blocks in zip(self._flats[unit], parts, strict=True):
                whole = self._sink.alloc(flat.whole, _PARAMETERS, "flat parameters")
                kept = whole
                if self._sharded:
                    kept = self._sink.alloc(flat.shard, _PARAMETERS, "parameter shards")
                    self._sink.free(whole)
                free_all(self._sink, blocks)
                if self._options.offload:
                    self._sink.free(kept)

    def forward_begin(self) -> None:
        """The root is gathered; before the first forward each buffer is made once and freed (lazy initialisation)."""
        self._backward = False
        self._order = []
        if not self._started:
            self._started = True
            for flats in self._flats:
                self._make_once(flats)
        self._drop_what_nobody_steps()
        self._free_dropped()
        self._gather(0)
        if self._prefetches and self._flats[0]:
            self._gather(1)

    def forward_before(self, unit: int) -> None:
        """Gathers the unit; in a recomputed forward it is there already."""
        if unit == 0:
            return
        self._gather(unit)
        if self._prefetches and not self._backward:
            self._gather(unit + 1)

    def forward_after(self, unit: int) -> None:
        """Frees the unit's parameters under FULL_SHARD, the cast copies under NO_SHARD."""
        if unit == 0 or self._backward:
            return
        if self._options.strategy != "shard_grad_op":
            self._free(unit)
        self._record(unit)

    def forward_end(self) -> None:
        """The root stays gathered."""
        if not self._sharded:
            self._free(0)
        self._record(0)

    def backward_begin(self) -> None:
        """The root's pre-backward hook."""
        self._backward = True
        self._free_dropped()
        self._before(0)

    def backward_before(self, unit: int) -> None:
        """Gathers the unit, and with BACKWARD_PRE the one before it."""
        if unit:
            self._before(unit)

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """The whole gradient is joined, parameters are freed, and the gradient is reduced.

        With forward prefetch all this waits for the backward of the unit before: its views were made before that unit
        ran, and autograd works off what was made last first.
        """
        if unit == 0:
            self._root_grads.extend(grads)  # until all of them are there
            return
        if not self._prefetches:
            self._after(unit, grads)
            return
        waiting, self._waiting = self._waiting, (unit, tuple(grads))
        if waiting is not None:
            self._after(*waiting)

    def backward_end(self) -> None:
        """The root's gradients. Those that went to the host are freed here: until then FSDP refers to them
        (_saved_grad_shard)."""
        if self._waiting is not None:
            self._after(*self._waiting)
            self._waiting = None
        self._after(0, self._root_grads)
        self._root_grads = []
        self._free_late()
        if self._options.offload and self._reduces:
            free_all(self._sink, list(self._stored.values()))
            self._stored = {}
        self._backward = False
        self._trained = True
        self._micro += 1

    def holds_gradients(self) -> bool:
        """Never: each micro-batch makes its own gradients of the gathered views."""
        return False

    def keeps_inputs(self, unit: int) -> bool:
        """Where a flat parameter is frozen: the hook that frees it in backward is on the unit's inputs and refers to
        them (_register_post_backward_reshard_only_hook; torch/autograd/graph.py, register_multi_grad_hook). Those
        are the recomputed ones where the checkpoint calls the wrapped unit."""
        return self._options.nested and unit > 0 and any(not flat.trains for flat in self._flats[unit])

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """Flat shards, or the parts of original parameters that lie in this rank's."""
        if self._local is None:
            self._local = tuple(each for flats in self._flats for flat in flats for each in flat.local)
        return self._local

    def step_begin(self) -> None:
        """Nothing."""

    def step_end(self) -> None:
        """Nothing."""

    def zero_grad(self) -> None:
        """Frees stored gradients. With original parameters these are views, and the flat gradient itself goes
        when the next forward begins (_reset_flat_param_grad_info_if_needed)."""
        self._dropped = [*self._stored.values(), *self._whole.values()]
        self._stored, self._whole, self._reduced = {}, {}, set()
        self._micro = 0
        if not self._options.use_orig_params:
            self._free_dropped()

    def _drop_what_nobody_steps(self) -> None:
        """With original parameters a gradient goes when the next forward begins if no parameter of this rank's shard
        has a part of it: if all that lies there is frozen (_reset_flat_param_grad_info_if_needed)."""
        if not self._options.use_orig_params or self._options.offload:
            return
        for key in [each for each in self._stored if not self._flats[each[0]][each[1]].local]:
            self._dropped.append(self._stored.pop(key))

    def _free_dropped(self) -> None:
        free_all(self._sink, self._dropped)
        self._dropped = []

    @property
    def _prefetches(self) -> bool:
        """The order of forward is known after the first iteration."""
        return self._options.forward_prefetch and self._trained

    @property
    def _reduces(self) -> bool:
        options = self._options
        return not options.no_sync or self._micro >= options.accumulation - 1

    def _load(self, unit: int) -> list[list[int]]:
        name = "parameters before sharding"
        return [alloc_all(self._sink, flat.loaded, _PARAMETERS, name) for flat in self._flats[unit]]

    def _make_once(self, flats: Sequence[Flat]) -> None:
        """init_flat_param_attributes makes each buffer at full size and empties it."""
        for flat in flats if self._sharded else ():
            for size in (flat.cast, flat.gathered, flat.full_precision):
                if size:
                    self._sink.free(self._sink.alloc(size, _COMMUNICATION, "gathered parameters"))

    def _record(self, unit: int) -> None:
        if self._flats[unit]:
            self._order.append(unit)
            self._needed.add(unit)

    def _gather(self, unit: int) -> None:
        if unit >= len(self._flats):
            return
        for place, flat in enumerate(self._flats[unit]):
            if (unit, place) in self._gathered:
                continue
            if self._sharded:
                self._gathered[unit, place] = self._gather_one(flat)
            elif flat.cast:  # NO_SHARD: the cast copy is what computes
                self._gathered[unit, place] = self._cast(flat)

    def _gather_one(self, flat: Flat) -> int:
        source = None
        if flat.cast:
            source = self._cast(flat)
        elif self._options.offload:
            source = self._sink.alloc(flat.shard, _COMMUNICATION, "shards from the host", CAST)
        gathered = self._sink.alloc(flat.gathered, _PARAMETERS, "gathered parameters", GATHER)
        if source is not None:
            self._sink.free(source)
        return gathered

    def _cast(self, flat: Flat) -> int:
        cast = self._sink.alloc(flat.cast, _COMMUNICATION, "cast shards", CAST)
        if self._options.offload:
            self._sink.free(self._sink.alloc(flat.shard, _COMMUNICATION, "shards from the host", CAST))
        return cast

    def _free(self, unit: int) -> None:
        for place in range(len(self._flats[unit])):
            self._free_one((unit, place))

    def _free_one(self, key: _Key) -> None:
        gathered = self._gathered.pop(key, None)
        if gathered is not None:
            self._sink.free(gathered)

    def _before(self, unit: int) -> None:
        self._gather(unit)
        self._needed.discard(unit)
        if self._prefetch == "pre":
            self._gather_before(unit)
        self._free_late()

    def _gather_before(self, unit: int) -> None:
        place = self._order.index(unit) if unit in self._order else 0
        if place > 0 and self._order[place - 1] in self._needed:
            self._gather(self._order[place - 1])

    def _free_late(self) -> None:
        for key in self._late:
            self._free_one(key)
        self._late = []

    def _owner(self, unit: int, grad: Grad) -> int:
        """The place of the flat parameter that a gradient belongs to; by default the first one that trains."""
        training = [place for place, flat in enumerate(self._flats[unit]) if flat.trains]
        name = grad.parameter.name
        named = (place for place in training if name in self._flats[unit][place].trained_names)
        return next(named, training[0] if training else 0)

    def _after(self, unit: int, grads: Sequence[Grad]) -> None:
        flats = self._flats[unit]
        for place, flat in enumerate(flats):
            key = (unit, place)
            if not flat.trains:
                # The hook that frees it is on the unit's input, behind the one that gathers the unit before.
                self._late.append(key)
                continue
            mine = grads if len(flats) == 1 else [each for each in grads if self._owner(unit, each) == place]
            joined = self._join(flat, mine)
            if not self._sharded or self._reduces or self._options.strategy == "full_shard":
                self._free_one(key)
            if self._prefetch == "post":
                self._gather_before(unit)
            self._take(key, flat, joined)
        if unit <= 1 or self._options.nested:  # no unit lies before it, or has run backward yet
            self._free_late()

    def _join(self, flat: Flat, grads: Sequence[Grad]) -> int | None:
        """The gradient of the flat parameter, beside those of its views."""
        if not grads:
            return None
        zeros = (
            alloc_all(self._sink, flat.zeros, _GRADIENTS, "gradients of frozen parameters")
            if flat.zeros and all(grad.parameter.trainable for grad in grads)
            else []
        )
        joined = self._sink.alloc(flat.gradient, _GRADIENTS, "flat gradient")
        free_all(self._sink, [*zeros, *(grad.handle for grad in grads)])
        return joined

    def _take(self, key: _Key, flat: Flat, joined: int | None) -> None:
        """Adds a gradient to what earlier micro-batches left whole, and reduces it if this one is reduced. The
        new one stays until that is done: the node of autograd that runs all this refers to it."""
        earlier = self._whole.pop(key, None)
        gradient = joined if earlier is None else earlier
        if gradient is None:
            return
        if not self._reduces:
            self._whole[key] = gradient
        elif self._sharded:
            self._reduce(key, flat, gradient)
        else:
            self._reduce_whole(key, flat, gradient)
        if joined is not None and joined != gradient:
            self._sink.free(joined)

    def _reduce(self, key: _Key, flat: Flat, gradient: int) -> None:
        copies = [size for size in (flat.reduced, flat.padded) if size]
        blocks = [
            gradient,
            *(self._sink.alloc(each, _COMMUNICATION, "reduce-scatter buffer", REDUCE) for each in copies),
        ]
        output = self._sink.alloc(flat.output, _GRADIENTS, "gradient shards", REDUCE)
        if flat.stored_output:
            low, output = output, self._sink.alloc(flat.stored_output, _GRADIENTS, "gradient shards", REDUCE)
            self._sink.free(low)
        if key in self._stored:
            self._sink.free(output)
        else:
            self._stored[key] = output
        free_all(self._sink, blocks[::-1])

    def _reduce_whole(self, key: _Key, flat: Flat, gradient: int) -> None:
        """NO_SHARD: the whole gradient is summed in place, and stays whole in the type of the parameters; later
        micro-batches are added to it."""
        result = gradient
        first = flat.reduced_again if key in self._reduced else flat.reduced
        # The second cast brings it back to the type of the parameters, in which it may be already.
        second = 0 if key in self._reduced and not first else flat.stored_output
        for size in (first, second):
            if size:
                before, result = result, self._sink.alloc(size, _GRADIENTS, "flat gradient", REDUCE)
                if before != gradient:
                    self._sink.free(before)
        if result != gradient:
            self._sink.free(gradient)
        # It is whole, and found there by the next micro-batch.
        self._whole[key] = result
        self._reduced.add(key)
