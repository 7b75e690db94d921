"""A reward model: one number for each sample, from a layer of one output on the last hidden states.

Source: trl 1.16, trl/trainer/reward_trainer.py (chosen and rejected are one batch of twice the samples), transformers
5.24, modeling_layers.py (GenericForSequenceClassification: `score` on every position, without a bias; the last one of
each sample is taken). docs/terms/preference.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from oomph.predict.compose import pieces
from oomph.predict.compose.keys import Keyed, key_of
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
from oomph.predict.engine import losses
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor, contiguous
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.play import apply
from oomph.predict.engine.scope import Scope
from oomph.predict.sharding.base import Unit, UnitParameter

#: The layer's weight.
SCORE = "score.weight"


def with_score(setup: Setup, units: Units) -> Units:
    """The model's units with `score` in place of the output layer. Beside adapters it trains only where it is named
    (modules_to_save)."""
    head = f"{setup.architecture.head}.weight"
    lora = setup.job.method.lora
    sample = next(each for unit in units.units for each in unit.parameters)
    trains = lora is None or any(part in SCORE for part in lora.modules_to_save)
    width = setup.dims["hidden"]
    score = UnitParameter(
        SCORE,
        width,
        trains,
        sample.weight_bytes,
        sample.compute_bytes,
        sample.grad_bytes,
        None,
        (1, width),
    )

    def changed(place: int, unit: Unit) -> Unit:
        kept = tuple(each for each in unit.parameters if each.name != head)
        return replace(unit, parameters=(*kept, score) if place == units.head else kept)

    return replace(units, units=tuple(changed(place, unit) for place, unit in enumerate(units.units)))


def rewards(setup: Setup, mode: Mode) -> Piece:
    """Final norm, a score of each position, and (with `mode.grad`) a loss of them."""
    return _rewards(key_of(setup), Keyed(setup), mode)


@lru_cache(maxsize=256)
def _rewards(_key: tuple[object, ...], keyed: Keyed, mode: Mode) -> Piece:
    setup = keyed.setup
    scope = pieces.scope_of(setup, mode)
    norm, number, _ = losses.split_at_head(
        pieces.section(setup, "after"), scope, f"{setup.architecture.head}.weight"
    )
    lora = setup.job.method.lora
    trains = scope.graph is not None and (lora is None or any(part in SCORE for part in lora.modules_to_save))

    def finish(scope: Scope) -> Tensor:
        hidden = scope.tensor(number)
        source = hidden
        if scope.autocast and hidden.dtype == "fp32":
            source = apply(scope, "aten._to_copy", [hidden], hidden.shape, "bf16")
        width = hidden.shape[-1]
        weight = Tensor(scope.heap.hand_nothing(SCORE), (1, width), contiguous((1, width)), hidden.dtype)
        weight.parameter, weight.requires = SCORE, trains
        loss = scope.heap.new((), "fp32", "loss")
        scores = scope.heap.allocate(4 * hidden.shape[0] * hidden.shape[1], "scores")
        if scope.graph is not None and (source.requires or trains):
            node = scope.graph.add("score", [source, weight if trains else None], [loss])
            scope.graph.save(node, source)
            node.metas = [source, weight]
            node.back = _score_back
        scope.heap.release(scores)
        if source is not hidden:
            scope.heap.release(source.storage)
        scope.heap.release(hidden.storage)
        return loss

    return build(scope, norm, requires=mode.requires, pinned=mode.pinned, finish=finish)


def _score_back(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    source, weight = node.metas
    assert source is not None
    assert weight is not None
    return [
        heap.new(each.shape, each.dtype, "gradient") if edge is not None else None
        for each, edge in zip((source, weight), node.edges, strict=True)
    ]
