"""The results of an operator: new, where an argument lies, or what forward kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.memory.categories import Category
from oomph.predict.engine.heap import Heap, Tensor, numel
from oomph.predict.engine.scope import Scope


def result_of(scope: Scope, number: int, inputs: Sequence[Tensor | None]) -> Tensor:
    """A result: a tensor of the variant, with its storage where it has none yet."""
    storage_number, _, _, dtype = scope.program.tensors[number]
    known = scope.storages.get(storage_number)
    if known is None or (known.refs <= 0 and known.number >= 0):
        kind, size = scope.program.storages[storage_number][:2]
        size_bytes = scope.values[str(size)] if kind == "own" else 0
        if number in scope.low:
            size_bytes //= 2
        if scope.widening is not None and number in scope.widening.wide:
            size_bytes *= 2
        if scope.partition is not None and storage_number not in scope.partition.exists:
            size_bytes = 0
        known = scope.heap.allocate(size_bytes)
        scope.storages[storage_number] = known
        scope.ids[id(known)] = storage_number
    if number in scope.low:
        dtype = "bf16"
    if scope.widening is not None and number in scope.widening.wide:
        dtype = "fp32"
    tensor = scope.view(number, known, dtype)
    for each in inputs:
        if each is not None and each.storage is known:
            tensor.parameter = each.parameter
            break
    scope.tensors[number] = tensor
    return tensor


def counts_places(heap: Heap, result: Tensor) -> None:
    """masked_scatter counts where each element comes from, in 64 bits, and forgets it (cuda/IndexKernel.cpp,
    masked_scatter__cuda)."""
    heap.release(heap.allocate(8 * numel(result.shape), "running counts of a mask", Category.TEMPORARIES))


def made_leaf(scope: Scope, leaf: Tensor) -> None:
    """`requires_grad_` of a module's output: AccumulateGrad holds the leaf as long as the graph lives."""
    leaf.requires = True
    leaf.storage.refs += 1
    scope.attributes.append(leaf.storage)


def lies_where(scope: Scope, source: Tensor | None, result: int) -> None:
    """The result lies where the argument does, under a name of its own."""
    assert source is not None
    source.storage.refs += 1
    scope.storages[scope.program.tensors[result][0]] = source.storage


def hand_back(scope: Scope, results: Sequence[Any]) -> None:
    """A recomputation takes what forward kept instead of running the operator again."""
    for number in results:
        if number is not None and scope.given and has_bytes(scope, number) and is_wanted(scope, number):
            storage = scope.program.tensors[number][0]
            scope.storages[storage] = scope.given.pop(0)
            scope.ids[id(scope.storages[storage])] = storage


def is_wanted(scope: Scope, number: int) -> bool:
    """Whether a kept result is read by backward; without torch.compile nobody asks."""
    return scope.wanted is None or scope.program.tensors[number][0] in scope.wanted


def has_bytes(scope: Scope, number: int) -> bool:
    """Whether a result has a storage of its own that is not empty."""
    kind, size = scope.program.storages[scope.program.tensors[number][0]][:2]
    return kind == "own" and scope.values[str(size)] > 0


def runs_last(scope: Scope, results: Sequence[int | None]) -> None:
    """Makes an operator's results and lets them go: the exception that ends the recomputation comes when one of them is
    saved."""
    numbers = [each for each in results if each is not None and has_bytes(scope, each)]
    sizes = [scope.values[str(scope.program.storages[scope.program.tensors[each][0]][1])] for each in numbers]
    for storage in [scope.heap.allocate(size) for size in sizes]:
        scope.heap.release(storage)
