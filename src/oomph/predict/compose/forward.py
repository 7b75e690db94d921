"""One forward on one rank, in the order in which PyTorch runs it: embedding, layers, output layer, loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import offload, pieces
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.presents import present_bytes
from oomph.predict.compose.widths import first_is_wide, widens_here
from oomph.predict.engine.piece import Piece
from oomph.predict.sharding.base import UnitParameter

if TYPE_CHECKING:
    from oomph.predict.compose.step import Step


@dataclass
class Layer:
    """A layer between its forward and its backward: what comes in, and the handles of its blocks (none where it was
    checkpointed)."""

    inlet: int
    piece: Piece | None
    handles: Sequence[int] = ()
    checkpointed: bool = False


class Forward:
    """One forward: the layers that it leaves are what backward needs."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.setup = step.setup
        self.sink = step.sink
        self.layers: list[Layer] = []
        self.casts: list[int] = []
        #: What layers share and backward needs; and what lives as long as the graph (reentrant checkpoints' arguments).
        self.left: list[int] = []
        self.graphs: list[int] = []
        self._needed: set[int] = set()
        self._arguments: set[int] = set()
        #: The leaf that the graph holds, where the embedding's output was made to want a gradient (-1: there is none).
        self.leaf = -1
        #: From which layer on the hidden state is fp32 although the recording's is not (-1: from none on).
        self.wide_from = -1
        #: Inputs of layers have come back from the host.
        self.came_back = False
        self.kept: list[int] = []
        self.kept_bytes = 0
        self.front_handles: Sequence[int] = ()
        self.head_handles: Sequence[int] = ()

    def run(self) -> None:
        """Embedding, layers, output layer, loss."""
        step, sink = self.step, self.sink
        sink.phase(Phase.FORWARD, "embedding")
        accumulates = step.sharding.holds_gradients()
        self.trains_front = any(each.trainable for each in self._front_parameters())
        leaf = self._inputs_want_gradients()
        mode = Mode(accumulates=accumulates, joined=self.setup.root_joins, leaf=leaf)
        self.front = pieces.front(self.setup, mode)
        if first_is_wide(self.setup, self.front):
            self.wide_from = 0
        step.next_batch(sink.alloc(self.front.inputs, Category.ACTIVATIONS, "batch"))
        step.sharding.forward_begin()
        step.workspace("forward")
        if step.units.front:
            step.sharding.forward_before(step.units.front)
        nothing = sink.alloc(0, Category.UNKNOWN, "nothing")
        self.front_handles = sink.play(self.front.piece.forward, [nothing])
        if step.units.front:
            step.sharding.forward_after(step.units.front)
        self._casts(self.front.piece, self.front_handles)
        hidden = self.front_handles[self.front.piece.out]
        self.first_hidden = hidden
        if self.front.piece.backward is None and self.requires(0):
            # The leaf that was made to want a gradient is held by the graph (AccumulateGrad's variable).
            size = self.front.leaf
            self.leaf = sink.alloc(size, Category.ACTIVATIONS, "embedding output") if size else hidden
        for number in range(self.setup.layers):
            hidden = self._layer(number, hidden, accumulates)
        self._stack_returned()
        self._head(hidden, accumulates)
        for handle in self.casts:
            sink.free(handle)
        self.casts = []

    def _front_parameters(self) -> Sequence[UnitParameter]:
        units = self.step.units
        return [
            each for each in units.units[units.front].parameters if each.trainable and "embed" in each.name
        ] or [each for each in units.units[units.front].parameters if each.trainable]

    def checkpointed(self, number: int) -> bool:
        """Whether a layer's activations are recomputed."""
        checkpointing = self.setup.job.checkpointing
        if not self.requires(number) and not self.setup.layer_trains(number):
            return False
        if checkpointing.mode in ("full", "selective_op"):
            return True
        return checkpointing.mode == "every_n" and number % max(1, checkpointing.every) == 0

    def requires(self, number: int) -> bool:
        """Whether the hidden state into a layer wants a gradient: the embedding trains, or its output was made to want
        one (enable_input_require_grads, under checkpointing), or an earlier layer has something that trains."""
        if self.front.piece.backward is not None:
            return True
        return self._inputs_want_gradients() or any(
            self.setup.layer_trains(earlier) for earlier in range(number)
        )

    def _inputs_want_gradients(self) -> bool:
        """Whether the embedding's output is made to want a gradient: under checkpoints, by Trainer or for adapters."""
        job = self.setup.job
        asked = self.setup.code.inputs_want_gradients or job.method.lora is not None
        return asked and job.checkpointing.mode != "none"

    def mode(self, number: int, accumulates: bool) -> Mode:
        """How a layer's graph is built."""
        held = self.step.sharding.keeps_inputs
        units = self.step.units
        later = (
            number + 1 < self.setup.layers and self.reentrant(number + 1) and held(units.blocks[number + 1])
        )
        checkpointed = self.checkpointed(number)
        return Mode(
            grad=True,
            requires=self.requires(number),
            pinned=checkpointed or (number == 0 and self.front.held),
            reentrant=self.reentrant(number),
            accumulates=accumulates,
            hold_grad=later,
            early_stop=checkpointed and not self.reentrant(number),
            selective=self.selective,
            frozen=self.setup.frozen_in(number),
            kind=self.setup.kind(number),
            joined=self.setup.joins and self.setup.layer_trains(number),
            wide=self.wide(number),
        )

    def wide(self, number: int) -> bool:
        """Whether the hidden state into a layer (or, behind the last, into the output layer) is fp32 although the
        recording's is not."""
        return 0 <= self.wide_from <= number

    @property
    def selective(self) -> bool:
        """Whether a policy keeps some operators' results."""
        return self.setup.job.checkpointing.mode == "selective_op"

    def reentrant(self, number: int) -> bool:
        """Whether the layer is checkpointed the reentrant way."""
        asked = self.setup.job.checkpointing.reentrant
        return self.checkpointed(number) and (self.setup.code.reentrant if asked is None else asked)

    def _layer(self, number: int, hidden: int, accumulates: bool) -> int:
        step, sink = self.step, self.sink
        unit = step.units.blocks[number]
        sink.phase(Phase.FORWARD, f"block {number}")
        step.sharding.forward_before(unit)
        if self.checkpointed(number):
            mode = Mode(
                grad=False,
                pinned=True,
                selective=self.selective,
                frozen=self.setup.frozen_in(number),
                kind=self.setup.kind(number),
                wide=self.wide(number),
                attributes=bool(self.setup.int8) and not self.reentrant(number),
            )
            piece = pieces.block(self.setup, mode)
            handles = sink.play(piece.forward, [hidden])
            self._casts(piece, handles)
            self.graphs += [handles[each] for each in piece.attributes if handles[each] >= 0]
            kept = [handles[each] for each in piece.policy]
            self._needed |= piece.uses
            if self.reentrant(number):
                self._arguments |= piece.uses
            self.layers.append(Layer(hidden, None, kept, checkpointed=True))
            if presents := present_bytes(self.setup):
                self.casts.append(sink.alloc(presents, Category.ACTIVATIONS, "keys and values"))
            offload.away(self)
        else:
            piece = pieces.block(self.setup, self.mode(number, accumulates))
            handles = sink.play(piece.forward, [hidden])
            self._casts(piece, handles)
            self._needed |= piece.saves
            self.layers.append(Layer(hidden, piece, handles))
        step.sharding.forward_after(unit)
        if self.wide_from < 0 and widens_here(self.setup, piece):
            self.wide_from = number + 1
        return handles[piece.out]

    def _head(self, hidden: int, accumulates: bool) -> None:
        step, sink = self.step, self.sink
        sink.phase(Phase.FORWARD, "output layer and loss")
        if step.units.head:
            step.sharding.forward_before(step.units.head)
        self.head = self.end(
            Mode(
                accumulates=accumulates,
                requires=self.requires(self.setup.layers),
                joined=self.setup.root_joins,
                wide=self.wide(self.setup.layers),
            )
        )
        handed: Sequence[int] = [hidden]
        if self.head.model is not None:
            handed = sink.play(self.head.model, handed)
            self._returned()
            step.let_go()
        self.head_handles = sink.play(self.head.forward, handed)
        self._casts(self.head, self.head_handles)
        self.kept_bytes = sum(self.head.forward.sizes[each] for each in self.head.kept)
        self.kept = [self.head_handles[each] for each in self.head.kept if self.head_handles[each] >= 0]
        if self.head.model is None:
            self._returned()

    def end(self, mode: Mode) -> Piece:
        """What follows the layers."""
        return pieces.head(self.setup, mode)

    def _returned(self) -> None:
        """The output layer's and the model's hooks: before the loss, where that is the caller's."""
        units, sharding = self.step.units, self.step.sharding
        if units.head:
            sharding.forward_after(units.head)
        sharding.forward_end()

    def _casts(self, piece: Piece, handles: Sequence[int]) -> None:
        self.casts += [handles[each] for each in piece.after_forward if handles[each] >= 0]

    def _stack_returned(self) -> None:
        """The stack of layers has returned: its caller's names are gone. What no layer saved is free (the embedding's
        output where it had a name of its own)."""
        needed = self._needed | self.front.piece.saves
        for each in self.front.left:
            handle = self.front_handles[each.block]
            if handle < 0:
                continue
            if each.dropped and each.storage not in needed:
                self.sink.free(handle)
            else:
                # CheckpointFunction keeps the call with its arguments, and dies with the graph.
                (self.graphs if each.storage in self._arguments else self.left).append(handle)
        first = self.layers[0]
        if (
            self.front.held
            and not first.checkpointed
            and first.piece is not None
            and not first.piece.entry_saved
        ):
            self.sink.free(self.first_hidden)
