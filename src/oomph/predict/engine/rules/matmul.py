"""Matrix products. Operands that cuBLAS cannot read as they lie are copied for the call.

Source: tools/autograd/derivatives.yaml; aten/src/ATen/native/cuda/Blas.cpp (prepare_matrix_for_cublas,
prepare_batch_matrix_for_cublas); FunctionsManual.cpp (mm_mat1_backward, mm_mat2_backward: results lie as the operands).
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Shape, Tensor, contiguous, is_dense
from oomph.predict.engine.rules.base import Call, first, rule


def readable(matrix: Tensor) -> bool:
    """Whether cuBLAS reads this matrix as it lies, plain or transposed."""
    (rows, columns), (down, across) = matrix.shape[-2:], matrix.strides[-2:]
    if len(matrix.shape) == 2 and is_dense(matrix) and 1 in (down, across):
        return True
    return bool((down == 1 and across >= max(1, rows)) or (across == 1 and down >= max(1, columns)))


def copies(heap: Heap, *operands: Tensor | None) -> list[Tensor]:
    """Clones of the operands that cannot be read; the caller releases them."""
    return [
        heap.new(each.shape, each.dtype, "operand")
        for each in operands
        if each is not None and not readable(each)
    ]


def product(
    heap: Heap,
    shape: Shape,
    dtype: str,
    left: Tensor | None,
    right: Tensor | None,
    like: Tensor | None = None,
) -> Tensor:
    """A product of two operands; laid out as `like` is where that is column-major."""
    strides = contiguous(shape)
    if (
        like is not None
        and len(shape) == 2
        and like.strides[0] == 1
        and like.strides[1] >= max(1, like.shape[0])
    ):
        strides = (1, shape[0])
    result = heap.new(shape, dtype, "", strides)
    for each in copies(heap, left, right):
        heap.release(each.storage)
    return result


@rule("aten.mm", "aten.bmm")
def mm(call: Call) -> None:
    """Each operand's gradient needs the other, which is saved for it."""
    _product(call, call.tensors[0], call.tensors[1], None)


@rule("aten.addmm", "aten.baddbmm")
def addmm(call: Call) -> None:
    """The same with a bias, whose gradient is the gradient, summed."""
    _product(call, call.tensors[1], call.tensors[2], call.tensors[0])


def _product(call: Call, left: Tensor | None, right: Tensor | None, bias: Tensor | None) -> None:
    assert left is not None
    assert right is not None
    with_bias = len(call.tensors) > 2
    node = call.node(edges=[bias, left, right] if with_bias else [left, right])
    edges = node.edges[1:] if with_bias else node.edges
    if edges[0] is not None:
        call.graph.save(node, right)
    if edges[1] is not None:
        call.graph.save(node, left)
    node.metas = [left, right]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        left, right = node.metas
        assert left is not None
        assert right is not None
        found: list[Tensor | None] = []
        if with_bias:
            found.append(None if node.edges[0] is None else heap.view(grad, grad.shape, grad.strides))
        first_edge, second_edge = node.edges[-2], node.edges[-1]
        found.append(None if first_edge is None else product(heap, left.shape, grad.dtype, grad, right, left))
        found.append(
            None if second_edge is None else product(heap, right.shape, grad.dtype, left, grad, right)
        )
        return found

    node.back = back


@rule("aten._grouped_mm")
def grouped_mm(call: Call) -> None:
    """One product per group of rows (the experts of a mixture): rows and weights are saved as with a plain product, and
    the offsets; backward is two grouped products (derivatives.yaml, _grouped_mm)."""
    left, right = call.tensors[:2]
    node = call.node(edges=[left, right])
    call.graph.save(node, *call.tensors[2:])
    if node.edges[0] is not None:
        call.graph.save(node, right)
    if node.edges[1] is not None:
        call.graph.save(node, left)
    node.metas = [left, right]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        return [
            None if edge is None or source is None else heap.new(source.shape, grad.dtype)
            for edge, source in zip(node.edges, node.metas, strict=True)
        ]

    node.back = back
