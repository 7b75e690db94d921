"""Final norm of all positions, logits of the last one: the end of a pass over a prompt.

Source: transformers/generation/utils.py (`logits_to_keep` is 1, since 4.45 by the name num_logits_to_keep), before
which every position's logits were made and cast to fp32 (models/llama/modeling_llama.py: `logits = logits.float()`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from oomph.memory.categories import Category
from oomph.predict.compose import pieces
from oomph.predict.compose.inference import NO_GRAD
from oomph.predict.compose.keys import Keyed, key_of
from oomph.predict.compose.setup import Setup
from oomph.predict.engine import losses
from oomph.predict.engine.heap import ITEM, Tensor
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.scope import Scope
from oomph.predict.sink import Sink


@dataclass(frozen=True, eq=False)
class LastPosition:
    """`logits_bytes`: of what `play` leaves, the last position's. `all_bytes`: of all positions' fp32 logits, where
    they are made."""

    piece: Piece
    logits_bytes: int
    all_bytes: int = 0

    def play(self, sink: Sink, hidden: int) -> int:
        """Returns the handle of the logits."""
        handles = sink.play(self.piece.forward, [hidden])
        for each in self.piece.after_forward:
            if handles[each] >= 0:
                sink.free(handles[each])
        logits = handles[self.piece.out]
        if self.all_bytes:
            wide = sink.alloc(self.all_bytes, Category.TEMPORARIES, "logits of the prompt in fp32")
            sink.free(logits)
            return wide
        return logits


def last_position(setup: Setup, all_positions: bool) -> LastPosition:
    """The end for a setup, made once."""
    return _last_position(key_of(setup), Keyed(setup), all_positions)


@lru_cache(maxsize=256)
def _last_position(_key: tuple[object, ...], keyed: Keyed, all_positions: bool) -> LastPosition:
    setup = keyed.setup
    rows, tokens, vocab = setup.dims["b"], setup.dims["s"], setup.dims.get("vocab", 0)
    kept = rows * (tokens if all_positions else 1)
    scope = pieces.scope_of(setup, NO_GRAD)
    weight = f"{setup.architecture.head}.weight"
    norm, number, _ = losses.split_at_head(pieces.section(setup, "after"), scope, weight)
    dtype = "fp32" if setup.precision == "fp32" else "bf16"

    def finish(scope: Scope) -> Tensor:
        hidden = scope.tensor(number)
        made = project(scope, setup, kept, dtype)
        scope.heap.release(hidden.storage)
        return made

    piece = build(scope, norm, requires=False, finish=finish)
    wide = 4 * kept * vocab if all_positions and dtype != "fp32" else 0
    return LastPosition(piece, wide or kept * vocab * ITEM[dtype], wide)


def project(scope: Scope, setup: Setup, positions: int, dtype: str) -> Tensor:
    """The output layer on so many positions. Its weight is cast by autocast, or its values are made first where it is
    quantised."""
    heap, width, vocab = scope.heap, setup.dims["hidden"], setup.dims.get("vocab", 0)
    held = []
    quantized = setup.quantizes_module(setup.architecture.head)
    if quantized or setup.precision == "fp32-autocast":
        name = "dequantised weight" if quantized else "weights cast by autocast"
        held.append(heap.allocate(2 * vocab * width, name, Category.TEMPORARIES))
    if setup.precision.endswith("autocast"):
        held.append(heap.allocate(2 * positions * width, "input of the output layer", Category.TEMPORARIES))
    made = heap.new((positions, vocab), dtype, "logits")
    for each in held:
        heap.release(each)
    return made
