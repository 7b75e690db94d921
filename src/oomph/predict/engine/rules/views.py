"""Views and what copies them: reshape, transpose, slice, split, cat, expand, clone, casts.

Source: tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import (
    Heap,
    Shape,
    Tensor,
    contiguous,
    is_dense,
    numel,
    same_order,
    view_strides,
)
from oomph.predict.engine.rules.base import Call, first, rule


def reshaped(heap: Heap, grad: Tensor, shape: Shape) -> Tensor:
    """grad.reshape(shape): a view where strides allow it, else a copy."""
    strides = view_strides(grad.shape, grad.strides, shape)
    if strides is None:
        return heap.new(shape, grad.dtype, "reshape")
    return heap.view(grad, shape, strides)


@rule(
    "aten.view", "aten._unsafe_view", "aten.reshape", "aten.unsqueeze", "aten.squeeze", "aten._reshape_alias"
)
def view(call: Call) -> None:
    """The gradient is given the argument's shape."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [reshaped(heap, first(grads), shape)]

    call.node(edges=[source]).back = back


@rule("aten.view_as_complex", "aten.view_as_real")
def complex_view(call: Call) -> None:
    """Pairs of fp32 as complex numbers (8 bytes: `fp64` in programs), and back: views both ways."""
    source = call.tensors[0]
    assert source is not None
    shape, dtype = source.shape, source.dtype

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        result = heap.view(grad, shape, contiguous(shape))
        result.dtype = dtype
        return [result]

    call.node(edges=[source]).back = back


@rule("aten.t", "aten.transpose", "aten.permute", "aten.movedim", "aten.swapaxes")
def transpose(call: Call) -> None:
    """The gradient's dimensions are put back in their order."""
    source, result = call.tensors[0], call.results[0]
    assert source is not None
    inverse = _permutation(source, result)

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        shape = tuple(grad.shape[dim] for dim in inverse)
        return [heap.view(grad, shape, tuple(grad.strides[dim] for dim in inverse))]

    call.node(edges=[source]).back = back


def _permutation(source: Tensor, result: Tensor) -> list[int]:
    """For each dimension of the source, which one of the result it became."""
    left = list(range(len(result.shape)))
    places = []
    for size, stride in zip(source.shape, source.strides, strict=True):
        for dim in left:
            if result.shape[dim] == size and (result.strides[dim] == stride or size == 1):
                places.append(dim)
                left.remove(dim)
                break
        else:
            places.append(left.pop(0))
    return places


@rule("aten.expand")
def expand(call: Call) -> None:
    """The gradient is summed over what was expanded; the graph does so where shapes differ."""
    source = call.tensors[0]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        edge = node.edges[0]
        if edge is not None and numel(grad.shape) == numel(edge.shape):
            return [reshaped(heap, grad, edge.shape)]
        return [heap.view(grad, grad.shape, grad.strides)]

    call.node(edges=[source]).back = back


@rule("aten.slice", "aten.select", "aten.narrow", "aten.diagonal")
def sliced(call: Call) -> None:
    """A tensor of zeros of the argument's shape, into which the gradient is copied."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        if numel(grad.shape) == numel(shape):
            return [reshaped(heap, grad, shape)]
        return [heap.new(shape, grad.dtype)]

    call.node(edges=[source]).back = back


@rule(
    "aten.split",
    "aten.split_with_sizes",
    "aten.chunk",
    "aten.unbind",
    "aten.unsafe_split",
    "aten.unsafe_chunk",
)
def split(call: Call) -> None:
    """Gradients are concatenated; zeros stand for those that did not come."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape
    pieces = [result.shape for result in call.results]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        dtype = first(grads).dtype
        missing = [
            heap.new(piece, dtype, "zeros") for piece, grad in zip(pieces, grads, strict=True) if grad is None
        ]
        whole = heap.new(shape, dtype)
        for each in missing:
            heap.release(each.storage)
        return [whole]

    call.node(edges=[source]).back = back


@rule("aten.cat", "aten.stack")
def cat(call: Call) -> None:
    """Each argument's gradient is a narrow view."""
    shapes = [each.shape if each is not None else () for each in call.tensors]
    whole = call.results[0]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        found: list[Tensor | None] = []
        for shape, edge in zip(shapes, node.edges, strict=True):
            if edge is None:
                found.append(None)
                continue
            strides = grad.strides if len(shape) == len(whole.shape) else contiguous(shape)
            found.append(heap.view(grad, shape, strides))
        return found

    call.node().back = back


@rule("aten.clone", "aten.alias", "aten.lift_fresh", "aten.contiguous")
def clone(call: Call) -> None:
    """The gradient passes."""

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        held = heap.view(grad, grad.shape, grad.strides)
        held.looks = grad.looks
        return [held]

    call.node(edges=call.tensors[:1]).back = back


@rule("aten._to_copy")
def cast(call: Call) -> None:
    """The gradient is cast back."""
    source = call.tensors[0]
    assert source is not None
    dtype = source.dtype

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        if grad.dtype == dtype:
            return [heap.view(grad, grad.shape, grad.strides)]
        return [heap.new(grad.shape, dtype, "", same_order(grad.shape, grad.strides))]

    call.node(edges=[source]).back = back


@rule("aten.repeat", "aten.repeat_interleave")
def repeat(call: Call) -> None:
    """The gradient is summed to the argument's shape."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [heap.new(shape, first(grads).dtype)]

    call.node(edges=[source]).back = back


@rule("aten.constant_pad_nd")
def pad(call: Call) -> None:
    """A negative pad: a slice of the gradient, cloned."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        return (
            [heap.new(shape, grad.dtype)] if grad.shape != shape else [heap.view(grad, shape, grad.strides)]
        )

    call.node(edges=[source]).back = back


def dense_copy(heap: Heap, tensor: Tensor) -> Tensor:
    """tensor.contiguous(): the tensor where it is row-major."""
    if is_dense(tensor) and tensor.strides == contiguous(tensor.shape):
        return heap.view(tensor, tensor.shape, tensor.strides)
    return heap.new(tensor.shape, tensor.dtype, "contiguous")
