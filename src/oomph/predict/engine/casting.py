"""Weights that autocast casts: kept in its cache, or gone after their product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.memory.categories import Category
from oomph.predict.engine.heap import Storage, Tensor
from oomph.predict.engine.results import result_of
from oomph.predict.engine.rules import RULES
from oomph.predict.engine.rules.base import Call
from oomph.predict.engine.scope import Scope

_VIEWS = ("aten.t", "aten.view", "aten.transpose")


def cast_weight(scope: Scope, source: Tensor, results: Sequence[Any]) -> bool:
    """A weight that autocast casts: once, where it trains and the cache is on; a quantised one not at all."""
    if not source.parameter or source.node is not None:
        return False
    weight = scope.weights(source.parameter)
    number = results[0]
    if weight.quantized:
        storage_number, _, _, dtype = scope.program.tensors[number]
        scope.storages[storage_number] = Storage(-1, "quantized")
        tensor = Tensor(scope.storages[storage_number], scope.shape(number), scope.strides(number), dtype)
        tensor.parameter = source.parameter
        scope.tensors[number] = tensor
        return True
    if not scope.autocast:
        return False
    storage_number = scope.program.tensors[number][0]
    scope.pinned.add(storage_number)
    known = scope.cached.get(source.parameter)
    if known is not None:
        if scope.graph is not None and source.requires and not known.requires:
            # a checkpointed module has made it, of which nothing is recorded
            RULES["aten._to_copy"](Call("aten._to_copy", [source], [], [known], scope.graph))
        scope.tensors[number] = known
        scope.storages[storage_number] = known.storage
        return True
    made = result_of(scope, number, [])
    if scope.graph is not None and source.requires:
        RULES["aten._to_copy"](Call("aten._to_copy", [source], [], [made], scope.graph))
    made.parameter = source.parameter
    if made.storage.number >= 0:
        scope.heap.labels[made.storage.number] = (Category.PARAMETERS, "weights cast by autocast")
    if weight.trainable:
        scope.cached[source.parameter] = made
    else:
        scope.passing[source.parameter] = made.storage
    return True


def cast_again(scope: Scope, packet: str, numbers: Sequence[int | None], inputs: list[Tensor | None]) -> None:
    """A frozen weight that another product reads, too, is cast once more: autocast keeps casts of leaves that want
    gradients only (aten/src/ATen/autocast_mode.cpp, cached_cast). A program has one cast of each."""
    if packet not in _VIEWS or not inputs or inputs[0] is None or numbers[0] is None:
        return
    source, name = inputs[0], inputs[0].parameter
    if not scope.autocast or not name or name in scope.passing or source.storage.number < 0:
        return
    if scope.weights(name).trainable:
        return
    made = scope.heap.new(source.shape, source.dtype)
    made.parameter = name
    if made.storage.number >= 0:
        scope.heap.labels[made.storage.number] = (Category.PARAMETERS, "weights cast by autocast")
    scope.tensors[numbers[0]] = inputs[0] = made
    scope.storages[scope.program.tensors[numbers[0]][0]] = scope.passing[name] = made.storage


def let_used_go(scope: Scope, packet: str, inputs: Sequence[Tensor | None]) -> None:
    """A cast that autocast does not keep goes once its product is there."""
    if packet in _VIEWS:
        return
    for each in inputs:
        if each is not None and each.parameter in scope.passing:
            scope.heap.release(scope.passing.pop(each.parameter))
