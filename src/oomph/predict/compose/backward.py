"""One backward on one rank: loss, layers in reverse with what is recomputed, embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import offload, pieces
from oomph.predict.compose.forward import Forward, Layer
from oomph.predict.engine.piece import Piece
from oomph.predict.sharding.base import Grad

if TYPE_CHECKING:
    from oomph.predict.compose.step import Step


class Backward:
    """The backward of a forward."""

    def __init__(self, step: Step, forward: Forward) -> None:
        self.step = step
        self.forward = forward
        self.sink = step.sink
        self.root_grads: list[Grad] = []
        self.late: list[int] = []
        #: Units of layers that have no backward.
        self.unvisited: list[int] = []
        #: What lives as long as the graph.
        self.attributes: list[int] = []

    def run(self) -> None:
        """Loss, layers in reverse, embedding."""
        step, sink, forward = self.step, self.sink, self.forward
        step.begin_backward()
        sink.phase(Phase.BACKWARD, "loss and output layer")
        step.workspace("backward")
        hidden_grad = self._head()
        for number in range(step.setup.layers - 1, -1, -1):
            hidden_grad = self._layer(number, hidden_grad)
        sink.phase(Phase.BACKWARD, "embedding")
        self._front(hidden_grad)
        step.sharding.backward_after(0, self.root_grads)
        for unit in self.unvisited:
            step.sharding.backward_after(unit, [])
        step.sharding.backward_end()
        self.attributes += forward.graphs
        for handle in (*self.late, *forward.left):
            sink.free(handle)

    def _head(self) -> int:
        step, forward = self.step, self.forward
        piece = forward.head
        assert piece.backward is not None
        start = self.sink.alloc(4, Category.TEMPORARIES, "gradient of the loss")
        handed: Sequence[int] = [*forward.head_handles, start]
        unit = step.units.head
        if piece.loss_backward is not None:
            handed = self.sink.play(piece.loss_backward, handed)
        step.sharding.backward_begin()
        if unit:
            step.sharding.backward_before(unit)
        handles = self.sink.play(piece.backward, handed)
        self._attributes(piece, handles)
        grads = step.grads(unit, piece, handles)
        if unit:
            step.sharding.backward_after(unit, grads)
        else:
            self.root_grads += grads
        return handles[piece.entry_grad] if piece.entry_grad >= 0 else -1

    def _layer(self, number: int, grad: int) -> int:
        step, sink, forward = self.step, self.sink, self.forward
        layer = forward.layers[number]
        unit = step.units.blocks[number]
        if layer.piece is not None and layer.piece.backward is None:
            # No gradient comes here: what was gathered is let go when all of backward is done.
            self.unvisited.append(unit)
            return grad
        sink.phase(Phase.BACKWARD, f"block {number}")
        step.sharding.backward_before(unit)
        piece, handles = layer.piece, layer.handles
        accumulates = step.sharding.holds_gradients()
        early: Sequence[int] = [grad]
        if piece is None:
            piece = pieces.block(step.setup, forward.mode(number, accumulates))
            early = early if piece.early is None else sink.play(piece.early, early)
            offload.back(forward, layer, piece.forward.sizes[0])
            handles = sink.play(piece.forward, [layer.inlet, *layer.handles])
            for each in piece.after_forward:
                sink.free(handles[each])
        if piece.backward is None:
            return grad
        after = sink.play(piece.backward, [*handles, *early])
        if layer.checkpointed and forward.reentrant(number):
            for each in piece.attributes:  # of a graph that is gone with the layer's backward
                sink.free(after[each])
        else:
            self._attributes(piece, after)
        kept = layer.checkpointed and forward.reentrant(number) and step.sharding.keeps_inputs(unit)
        found = after[piece.entry_grad] if piece.entry_grad >= 0 else -1
        step.sharding.backward_after(unit, step.grads(unit, piece, after))
        self._let_go(number, layer, kept, found)
        return found

    def _attributes(self, piece: Piece, handles: Sequence[int]) -> None:
        self.attributes += [handles[each] for each in piece.attributes if handles[each] >= 0]

    def _let_go(self, number: int, layer: Layer, kept: bool, found: int) -> None:
        """The layer's input: a checkpoint's, or the embedding's output where something else held it."""
        if layer.checkpointed:
            if kept:
                # The leaf and its gradient are the graph's; what goes on into the embedding's backward is used there.
                first = number == 0
                used = found if first and self.forward.front.piece.backward is not None else -1
                graphs = (self.forward.leaf, found) if first and self.forward.leaf >= 0 else (used,)
                self.late += [each for each in (layer.inlet, found) if each >= 0 and each not in graphs]
            elif layer.inlet != self.forward.leaf:
                self.sink.free(layer.inlet)
        elif number == 0 and self.forward.front.held and layer.piece is not None and layer.piece.entry_saved:
            self.sink.free(layer.inlet)

    def _front(self, grad: int) -> None:
        step, forward = self.step, self.forward
        piece = forward.front.piece
        if grad < 0:
            return
        if piece.backward is None:
            # A leaf that was made to want a gradient: it and its gradient live as long as the graph, that is, the loss.
            self.attributes += [each for each in (forward.leaf, grad) if each >= 0]
            return
        handles = self.sink.play(piece.backward, [*forward.front_handles, grad])
        self._attributes(piece, handles)
        leaves = [handles[each.number] for each in piece.grads if not each.parameter]
        self.attributes += [each for each in leaves if each >= 0]
        grads = step.grads(step.units.front, piece, handles, self.root_grads)
        if step.units.front:
            step.sharding.backward_before(step.units.front)
            step.sharding.backward_after(step.units.front, grads)
        else:
            self.root_grads += grads
