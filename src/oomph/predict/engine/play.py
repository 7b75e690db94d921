"""Runs a section of a program on a heap, with or without autograd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from oomph.memory.categories import Category
from oomph.predict.engine import int8
from oomph.predict.engine.attention_kernel import FLASH, chosen_kernel
from oomph.predict.engine.casting import cast_again, cast_weight, let_used_go
from oomph.predict.engine.compiled import Partition
from oomph.predict.engine.context_parallel import goes_round, ring_of
from oomph.predict.engine.dequantizing import dequantized, dequantizes_again, keep_input, weight_of
from oomph.predict.engine.entering import enter
from oomph.predict.engine.heap import Shape, Storage, Tensor
from oomph.predict.engine.results import (
    counts_places,
    hand_back,
    is_wanted,
    lies_where,
    made_leaf,
    result_of,
    runs_last,
)
from oomph.predict.engine.scope import Scope
from oomph.predict.engine.staging import staged, stages_again
from oomph.predict.programs.load import Section


def run(scope: Scope, section: Section) -> None:
    """Plays the items in order. Raises UsageError for an operator that has no rule and would need one."""
    inlet = -1 if section.inlet is None else scope.program.tensors[section.inlet][0]
    late: list[int] = []
    graph, returns = scope.graph, scope.returns
    for number, item in enumerate(section.items):
        if number == scope.stop and scope.stop_added < 0:
            if scope.saves_results:
                runs_last(scope, item[3])
            scope.heap.stopped = True
        if item[0] == "link":
            link(scope, item[1], item[2])
            continue
        if item[0] == "drop":
            if scope.partition is None or item[1] == inlet:
                drop(scope, item[1])
            continue
        if item[0] == "drop_previous":
            late.append(item[1])
            continue
        saves, added = 0 if graph is None else graph.saves, scope.last_added
        operate(scope, item[1], item[2], item[3])
        if graph is not None and graph.saves > saves:
            scope.last_save = number
            made = [scope.tensor(each).storage for each in item[3] if each is not None]
            if scope.last_added == added:
                scope.last_added = -1
            if scope.stop < 0:
                scope.saves_results = any(each in made for each in graph.nodes[-1].saved)
        if returns and not returns.isdisjoint(item[3]):
            scope.returned = (len(scope.heap.events), len(scope.heap.sizes))
            scope.returned_nodes = 0 if graph is None else len(graph.nodes)
        if scope.partition is not None:
            _free_used(scope, scope.partition, number)
    # What the next layer would drop of this one: training keeps it for backward anyway.
    for storage in late:
        if scope.partition is None:
            drop(scope, storage)


def link(scope: Scope, outlet: int, inlet: int) -> None:
    """What goes out of one section comes into the next, under another number."""
    tensor = scope.tensor(outlet)
    if scope.widening is not None and outlet in scope.widening.wide:
        scope.widening.wide.add(inlet)
    scope.tensors[inlet] = tensor
    scope.storages[scope.program.tensors[inlet][0]] = tensor.storage


def _free_used(scope: Scope, partition: Partition, item: int) -> None:
    """Compiled code frees a tensor after the last kernel that reads it."""
    for number in partition.ends.get(item, ()):
        storage = scope.storages.get(number)
        # What autocast has cast is freed with its last holder, as its cache is (pinned).
        if storage is not None and number not in scope.pinned:
            scope.heap.release(storage)


def apply(
    scope: Scope,
    packet: str,
    inputs: Sequence[Tensor | None],
    shape: Shape,
    dtype: str,
    *,
    extra: Sequence[tuple[Shape, str]] = (),
) -> Tensor:
    """An operator that is in no program: a new dense result, its node, and `extra` results that only the node holds."""
    heap, graph = scope.heap, scope.graph
    heap.where = packet
    scope.added += 1
    if scope.added == scope.stop_added and not extra:
        heap.stopped = True
    made = [heap.new(shape, dtype), *(heap.new(each, kind) for each, kind in extra)]
    if graph is not None and any(each is not None and each.requires for each in inputs):
        saves = graph.saves
        enter(scope, packet, list(inputs), (), made, graph)
        if graph.saves > saves:
            scope.last_added = scope.added
    for each in made[1:]:
        heap.release(each.storage)
    return made[0]


def look(scope: Scope, packet: str, source: Tensor, shape: Shape, strides: Shape) -> Tensor:
    """A view; Python's reference to it is the caller's to release."""
    made = scope.heap.view(source, shape, strides)
    if scope.graph is not None and source.requires:
        enter(scope, packet, [source], (), [made], scope.graph)
    made.parameter = source.parameter
    return made


def drop(scope: Scope, number: int) -> None:
    """Python's last reference to a storage ended."""
    if number in scope.pinned:
        return
    storage = scope.storages.get(number)
    if storage is not None and storage.number >= 0:
        scope.heap.release(storage)


@cache
def base_name(name: str) -> str:
    """`aten.mul.Tensor` without the overload."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "aten" else name


def operate(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """One operator: what it allocates, then its node."""
    if scope.instead is not None and scope.instead(scope, name, arguments, results):
        return
    heap, graph, known = scope.heap, scope.graph, scope.tensors
    packet = base_name(name)
    if packet == FLASH:
        packet, arguments = chosen_kernel(scope, packet, arguments)
    numbers = _tensors(arguments)
    inputs = [None if each is None else known.get(each) or scope.tensor(each) for each in numbers]
    if scope.autocast:
        cast_again(scope, packet, numbers, inputs)
    if scope.low and not scope.low.isdisjoint(numbers):
        scope.low.update(
            each for each in results if each is not None and scope.program.tensors[each][3] == "fp32"
        )
    if (
        packet == "aten._to_copy"
        and inputs
        and inputs[0] is not None
        and cast_weight(scope, inputs[0], results)
    ):
        return
    widening = scope.widening
    if widening is not None and widening.passes(scope, packet, numbers, results):
        return
    weight = weight_of(packet, inputs)
    heap.where = packet
    if weight is not None and scope.weights(weight).int8:
        int8.multiply(scope, scope.weights(weight), numbers, inputs, results[0])
        if scope.adapters is not None:
            scope.adapters.see(scope, packet, weight, inputs, results[0])
        return
    narrowed = [] if widening is None else widening.before(scope, packet, numbers, inputs, results)
    held = dequantized(scope, weight, inputs)
    passing: list[Storage] = []
    copied_back = 0
    if packet.startswith("oomph."):
        copied, copied_back = staged(packet, inputs[0] if inputs else None, arguments, scope.torch)
        if copied:
            passing.append(heap.allocate(copied, "copy for a collective", Category.COMMUNICATION))
    ring = None if scope.ring == 1 else ring_of(packet, inputs, scope.ring)
    if ring is not None:
        passing[:0] = ring.before(heap)
    if packet == "oomph.rope":
        lies_where(scope, inputs[0], results[0])
    keeps = scope.policy is not None and scope.policy(packet)
    if keeps and scope.given:
        hand_back(scope, results)
    made = [result_of(scope, number, inputs) for number in results if number is not None]
    if graph is not None and scope.leaves and not scope.leaves.isdisjoint(results):
        made_leaf(scope, made[0])
    if keeps and graph is None:
        for each, number in zip(made, (n for n in results if n is not None), strict=True):
            if each.storage.number >= 0 and is_wanted(scope, number):
                each.storage.refs += 1
                scope.kept.append(each.storage)
    if packet == "aten.masked_scatter":
        counts_places(heap, made[0])
    for storage in (*held, *passing):
        heap.release(storage)
    if graph is not None and any([each is not None and each.requires for each in inputs]):
        enter(scope, packet, inputs, arguments, made, graph)
        if copied_back:
            stages_again(graph, copied_back)
        if ring is not None:
            goes_round(graph, ring)
        if held:
            dequantizes_again(graph, [heap.sizes[each.number] for each in held])
            if scope.keeps_inputs:
                keep_input(scope, inputs[-2])
    if scope.passing:
        let_used_go(scope, packet, inputs)
    if widening is not None:
        widening.after(scope, weight, numbers, results)
        for storage in narrowed:
            heap.release(storage)
    if scope.adapters is not None and results:
        scope.adapters.see(scope, packet, weight, inputs, results[0])


def _tensors(arguments: Sequence[Any]) -> list[int | None]:
    """Numbers of the tensor arguments in order; lists of tensors are flattened."""
    found: list[int | None] = []
    for each in arguments:
        if isinstance(each, dict):
            if "t" in each:
                found.append(each["t"])
        elif isinstance(each, (list, tuple)):
            found += [inner["t"] for inner in each if isinstance(inner, dict) and "t" in inner]
    return found
