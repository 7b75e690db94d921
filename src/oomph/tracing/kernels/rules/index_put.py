"""Adding to indexed elements sorts the indices first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import argument, bytes_of, is_tensor, kind, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


class IndexPut:
    """accumulate=True, or deterministic algorithms: each index tensor is wrapped and scaled (two arrays, one stays),
    then sorted with its position: three more arrays of 8 bytes per index and CUB's storage. A strided value, or self,
    is copied."""

    name = "index_put"
    operators = ("aten.index_put", "aten.index_put_", "aten._index_put_impl_", "aten._unsafe_index_put")
    evidence = (
        "aten/src/ATen/native/cuda/Indexing.cu (computeLinearIndex, index_put_with_sort_kernel); seen in real "
        "snapshots of torch 2.7 and 2.10"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the copy of self that `index_put` returns."""
        target, indices = call.args[0], [index for index in call.args[1] if index is not None]
        if not indices or not numel(target.shape):
            return None
        if not argument(call, 3, "accumulate", False) and not _deterministic():
            return None
        if any(kind(index) in ("bool", "uint8") for index in indices):
            return Effect((), uncertain_bytes=5 * 8 * sum(numel(index.shape) for index in indices))
        count = _broadcast(indices)
        array = 8 * count
        steps: list[Step] = [Output()]
        if not target.is_contiguous():
            steps.append(Take("self", bytes_of(target)))
        for number, index in enumerate(indices):
            steps += _linear(number, index, array)
        value = call.args[2]
        if is_tensor(value):
            slots = numel(target.shape) // _indexed(target, call.args[1]) * count
            if not value.is_contiguous() or numel(value.shape) < slots:
                steps.append(Take("value", slots * int(value.dtype.itemsize)))
        steps += [Take("sorted", array), Take("original", array), Take("range", array)]
        storage = cub.sort_pairs(count, 8, 8, cub.bits_of(_indexed(target, call.args[1]) - 1))
        steps += [Take("sort", storage), Give("sort"), Give("range"), Give("original"), Give("sorted")]
        # The value goes before the indices, which came first: as their variables stand in index_put_with_sort_kernel.
        if any(isinstance(step, Take) and step.name == "value" for step in steps):
            steps += [Give("value"), Give("linear0")]
        return Effect(tuple(steps))


def _deterministic() -> bool:
    """Whether the script asked for results that do not depend on the order of writes."""
    import torch

    return bool(torch.are_deterministic_algorithms_enabled())


def _linear(number: int, index: Any, size: int) -> list[Step]:
    """One index tensor, wrapped and scaled: on its own device, and then brought over."""
    name = f"linear{number}"
    steps: list[Step] = [Take(name, size)]
    if index.device.type != "cpu":
        steps = [Take("wrapped", size), *steps, Give("wrapped")]
        if kind(index) != "int64":
            steps.insert(0, Take(f"long{number}", 8 * numel(index.shape)))
    return [*steps, Give(name)] if number else steps


def _broadcast(indices: Sequence[Any]) -> int:
    """How many elements the indices select together."""
    shape: list[int] = []
    for index in indices:
        sizes = [int(size) for size in index.shape]
        shape = [1] * (len(sizes) - len(shape)) + shape
        sizes = [1] * (len(shape) - len(sizes)) + sizes
        shape = [max(one, other) for one, other in zip(shape, sizes, strict=True)]
    return numel(shape)


def _indexed(target: Any, indices: Sequence[Any]) -> int:
    """How many places the indexed dimensions have."""
    return numel(size for size, index in zip(target.shape, indices, strict=False) if index is not None)


RULE = IndexPut()
