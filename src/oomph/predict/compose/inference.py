"""A model's forward without gradients: evaluation, the pass over a prompt, a reference model.

The same sections as in training, played without autograd. What is different is the end: a loss, the logits of the last
position, or log-probabilities (`Head`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.pieces import Front, Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
from oomph.predict.compose.widths import first_is_wide, widens_here
from oomph.predict.engine.piece import Piece
from oomph.predict.sharding.base import Sharding
from oomph.predict.sink import Sink

NO_GRAD = Mode(grad=False, requires=False)

#: Plays what follows the layers, given the hidden state's handle; returns handles that outlive the model's forward.
Head = Callable[[int], Sequence[int]]


@dataclass
class Pass:
    """One forward on a sink. `setup` has the batch that runs, `units` and `sharding` are those of the model that runs
    it, `phase` is named for each layer, with `name` before it."""

    sink: Sink
    setup: Setup
    sharding: Sharding
    units: Units
    phase: Phase
    name: str = ""
    #: The hidden state is fp32 although the recording's is not.
    wide: bool = False

    def run(self, head: Head, before_layer: Callable[[int], None] | None = None) -> Sequence[int]:
        """Embedding, layers (`before_layer` comes before each), the model's hooks, `head`. Returns what `head` left."""
        sink, setup = self.sink, self.setup
        self._at("embedding")
        front = pieces.front(setup, NO_GRAD)
        self.sharding.forward_begin()
        if self.units.front:
            self.sharding.forward_before(self.units.front)
        nothing = sink.alloc(0, Category.UNKNOWN, "nothing")
        handles = sink.play(front.piece.forward, [nothing])
        if self.units.front:
            self.sharding.forward_after(self.units.front)
        casts = [handles[each] for each in front.piece.after_forward if handles[each] >= 0]
        left = [(handles[each.block], each.dropped) for each in front.left if handles[each.block] >= 0]
        first = handles[front.piece.out]
        hidden = self._layers(front, first, casts, before_layer)
        for handle, dropped in left:
            if dropped:
                sink.free(handle)
        self._at("output layer")
        if self.units.head:
            self.sharding.forward_before(self.units.head)
        kept = head(hidden)
        if self.units.head:
            self.sharding.forward_after(self.units.head)
        self.sharding.forward_end()
        for handle in (*casts, *(each for each, dropped in left if not dropped), nothing):
            sink.free(handle)
        return kept

    def _layers(
        self, front: Front, first: int, casts: list[int], before_layer: Callable[[int], None] | None
    ) -> int:
        setup, sink, hidden = self.setup, self.sink, first
        self.wide = first_is_wide(setup, front)
        for number in range(setup.layers):
            unit = self.units.blocks[number]
            self._at(f"block {number}")
            self.sharding.forward_before(unit)
            if before_layer is not None:
                before_layer(number)
            piece = pieces.block(setup, self._mode(number, front))
            handles = sink.play(piece.forward, [hidden])
            casts += loose(piece, handles)
            hidden = handles[piece.out]
            self.wide = self.wide or widens_here(setup, piece)
            self.sharding.forward_after(unit)
        if front.held:
            sink.free(first)
        return hidden

    def _mode(self, number: int, front: Front) -> Mode:
        return Mode(
            grad=False,
            requires=False,
            pinned=number == 0 and front.held,
            frozen=self.setup.frozen_in(number),
            kind=self.setup.kind(number),
            wide=self.wide,
        )

    def _at(self, where: str) -> None:
        self.sink.phase(self.phase, f"{self.name}, {where}" if self.name else where)


def loose(piece: Piece, handles: Sequence[int]) -> list[int]:
    """Weights that autocast cast and forgets when it is left."""
    return [handles[each] for each in piece.after_forward if handles[each] >= 0]
