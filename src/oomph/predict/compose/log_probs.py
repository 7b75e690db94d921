"""The end of a model that is asked for log-probabilities of given tokens, as TRL's trainers do.

Source: trl 1.16, trl/trainer/utils.py (add_fused_lm_head: the positions that are scored are picked out of the hidden
states; before 1.15 logits were made) and trl/kernels/chunked_logprob.py (ChunkedLogProbFunction: tiles of 4,096
positions by 32,768 entries of the vocabulary in one buffer; backward makes each tile again and adds up gradients in
fp32). docs/terms/preference.md.
"""

from __future__ import annotations

from functools import lru_cache

from oomph.memory.categories import Category
from oomph.predict.compose import pieces
from oomph.predict.compose.keys import Keyed, key_of
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.engine import losses
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, contiguous
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.scope import Scope

#: TOKEN_CHUNK_SIZE and _CHUNKED_LOGPROB_CHUNK_SIZE.
TILE_POSITIONS, TILE_ENTRIES = 4096, 32768
#: Of a position: log-probability, entropy, mean logit, and whether the target is the likeliest token.
_OUTPUTS_BYTES = 4 + 4 + 4 + 1
#: Of a scored position: running statistics (7 in fp32) and the target.
_STATISTICS_BYTES = 7 * 4 + 8


def scored_positions(setup: Setup) -> int:
    """Positions of a batch whose log-probabilities are asked for: all that predict a token of the completion."""
    rows, tokens = setup.dims["b"], setup.dims["s"]
    completion = setup.job.objective.completion
    return rows * max(1, min(tokens - 1, completion if completion is not None else tokens - 1))


def log_probs(setup: Setup, mode: Mode) -> Piece:
    """Final norm, log-probabilities, and (with `mode.grad`) a loss of them. What runs until the model returned is the
    piece's `model`."""
    return _log_probs(key_of(setup), Keyed(setup), mode, setup.job.objective)


@lru_cache(maxsize=256)
def _log_probs(_key: tuple[object, ...], keyed: Keyed, mode: Mode, _objective: object) -> Piece:
    setup = keyed.setup
    scope = pieces.scope_of(setup, mode)
    weight = f"{setup.architecture.head}.weight"
    norm, number, _ = losses.split_at_head(pieces.section(setup, "after"), scope, weight)

    def finish(scope: Scope) -> Tensor:
        hidden = scope.tensor(number)
        scores = _Fused(scope, setup, weight).forward(hidden)
        scope.heap.release(hidden.storage)
        scope.returned = (len(scope.heap.events), len(scope.heap.sizes))
        scope.returned_nodes = 0 if scope.graph is None else len(scope.graph.nodes)
        return _loss(scope, scores)

    return build(scope, norm, requires=mode.requires, pinned=mode.pinned, finish=finish)


def _loss(scope: Scope, scores: Tensor) -> Tensor:
    """A number made of the scores; what lies between has a number for each sample."""
    heap = scope.heap
    loss = heap.new((), "fp32", "loss")
    if scope.graph is not None and scores.requires:
        node = scope.graph.add("loss of log-probabilities", [scores], [loss])
        node.metas = [scores]
        node.back = _spread
    heap.release(scores.storage)
    return loss


def _spread(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    scores = node.metas[0]
    assert scores is not None
    return [heap.new(scores.shape, "fp32", "gradient of the log-probabilities")]


class _Fused:
    """TRL's fused output layer."""

    def __init__(self, scope: Scope, setup: Setup, weight: str) -> None:
        self.scope = scope
        self.setup = setup
        self.rows, self.tokens = setup.dims["b"], setup.dims["s"]
        self.width, self.vocab = setup.dims["hidden"], setup.dims.get("vocab", 0)
        self.count = scored_positions(setup)
        self.weight = Tensor(
            scope.heap.hand_nothing(weight),
            (self.vocab, self.width),
            contiguous((self.vocab, self.width)),
            _wide(setup),
        )
        self.weight.parameter = weight
        self.weight.requires = scope.graph is not None and setup.weight(weight).trainable

    def forward(self, hidden: Tensor) -> Tensor:
        """The scores, of which the graph keeps the scored positions' hidden states."""
        heap, graph = self.scope.heap, self.scope.graph
        picked = heap.new((self.count, self.width), hidden.dtype, "hidden states of scored positions")
        if graph is not None and hidden.requires:
            shifted = heap.view(hidden, (self.rows, self.tokens - 1, self.width), hidden.strides)
            cut = graph.add("slice", [hidden], [shifted])
            cut.metas = [hidden]
            cut.back = _filled
            chosen = graph.add("index", [shifted], [picked])
            chosen.metas = [shifted]
            chosen.back = _filled
            heap.release(shifted.storage)
        statistics = heap.new(
            (self.count * _STATISTICS_BYTES // 4,), "fp32", "statistics of log-probabilities"
        )
        heap.temporaries(self._tiles(picked), "tile of logits")
        outputs = heap.allocate(self.rows * self.tokens * _OUTPUTS_BYTES, "log-probabilities")
        scores = heap.new((self.count,), "fp32", "log-probabilities")
        if graph is not None and (picked.requires or self.weight.requires):
            node = graph.add(
                "chunked log-probabilities", [picked, self.weight if self.weight.requires else None], [scores]
            )
            graph.save(node, picked, statistics)
            node.metas = [picked]
            node.back = self._backward
        heap.release(statistics.storage)
        heap.release(picked.storage)
        heap.release(outputs)
        return scores

    def _tiles(self, picked: Tensor) -> list[int]:
        """The buffer of logits, and casts of its two factors where autocast computes in another type than theirs. (A
        slice of the weight is no leaf, so that autocast would not keep its cast: this one is explicit anyway.)"""
        item = 2 if self.scope.autocast else ITEM[picked.dtype]
        rows, columns = min(self.count, TILE_POSITIONS), min(self.vocab, TILE_ENTRIES)
        sizes = [rows * TILE_ENTRIES * item]
        if item != ITEM[picked.dtype]:
            sizes.append(rows * self.width * item)
        if item != ITEM[self.weight.dtype] or self.setup.quantizes_module(self.setup.architecture.head):
            sizes.append(columns * self.width * item)
        return sizes

    def _backward(self, heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
        picked = node.metas[0]
        assert picked is not None
        wanted = [(picked, node.edges[0] is not None), (self.weight, node.edges[1] is not None)]
        sums = [heap.new(each.shape, "fp32", "gradient in fp32") if want else None for each, want in wanted]
        tiles = [heap.allocate(size, "tile of logits", Category.TEMPORARIES) for size in self._tiles(picked)]
        found: list[Tensor | None] = []
        for total, (each, _) in zip(sums, wanted, strict=True):
            if total is None or each.dtype == "fp32":
                found.append(total)
                continue
            found.append(heap.new(each.shape, each.dtype, "gradient"))
        for total, made in zip(sums, found, strict=True):
            if total is not None and made is not total:
                heap.release(total.storage)
        for tile in tiles:
            heap.release(tile)
        return found


def _wide(setup: Setup) -> str:
    return "fp32" if setup.precision.startswith("fp32") else "bf16"


def _filled(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    """Backward of a selection: zeros with the gradient put in (FunctionsManual.cpp: slice_backward, index_backward)."""
    source = node.metas[0]
    assert source is not None
    return [heap.new(source.shape, source.dtype, "gradient of a selection")]
