"""Element by element: arithmetic, activations, dropout, masks, reductions.

Source: tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Shape, Tensor, contiguous, numel, promote, same_order
from oomph.predict.engine.rules.base import Back, Call, first, rule


def like(heap: Heap, tensor: Tensor, dtype: str | None = None, name: str = "") -> Tensor:
    """A result of the tensor's shape, its dimensions in the tensor's order."""
    return heap.new(tensor.shape, dtype or tensor.dtype, name, same_order(tensor.shape, tensor.strides))


def one_new(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
    """Backward of most functions of one argument: one new tensor."""
    return [like(heap, first(grads))]


def same(heap: Heap, grad: Tensor) -> Tensor:
    """The gradient itself, held once more."""
    held = heap.view(grad, grad.shape, grad.strides)
    held.looks = grad.looks
    return held


@rule("aten.add", "aten.sub", "aten.rsub", "aten.add_", "aten.sub_")
def add(call: Call) -> None:
    """The gradient passes to both; a difference negates the second's."""
    negated = "sub" in call.name

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        found: list[Tensor | None] = []
        for position, edge in enumerate(node.edges):
            if edge is None:
                found.append(None)
            elif negated and position == 1:
                found.append(like(heap, grad))
            else:
                found.append(same(heap, grad))
        return found

    call.node().back = back


@rule("aten.mul", "aten.mul_")
def mul(call: Call) -> None:
    """Each argument's gradient is the gradient times the other, which was saved."""
    tensors = call.tensors
    node = call.node()
    if len(tensors) > 1:
        for mine, other in ((0, 1), (1, 0)):
            if node.edges[mine] is not None:
                call.graph.save(node, tensors[other])
    node.metas = list(tensors)
    node.back = _mul_back


def _mul_back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
    grad = first(grads)
    found: list[Tensor | None] = []
    for position, edge in enumerate(node.edges):
        other = node.metas[1 - position] if len(node.metas) > 1 else None
        if edge is None:
            found.append(None)
        else:
            found.append(like(heap, grad, promote(grad.dtype, other.dtype) if other is not None else None))
    return found


@rule("aten.div", "aten.div_")
def div(call: Call) -> None:
    """By a number, or a tensor that was saved."""
    tensors = call.tensors
    node = call.node()
    second = len(tensors) > 1 and node.edges[1] is not None
    if len(tensors) > 1:
        call.graph.save(node, tensors[1])
    if second:
        call.graph.save(node, tensors[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        found: list[Tensor | None] = [None if node.edges[0] is None else like(heap, grad)]
        if len(node.edges) > 1:
            found.append(None)
            if node.edges[1] is not None:
                quotients = [like(heap, grad), like(heap, grad)]
                found[1] = like(heap, grad)
                for each in quotients:
                    heap.release(each.storage)
        return found

    node.back = back


@rule("aten.pow")
def pow_(call: Call) -> None:
    """grad * (exponent * self.pow(exponent - 1)): two temporaries beside the result (pow_backward)."""
    source = call.tensors[0]
    node = call.node(edges=[source])
    call.graph.save(node, source)
    node.metas = [source]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad, source = first(grads), node.metas[0]
        assert source is not None
        held = [like(heap, source, None, "pow"), like(heap, source, None, "pow")]
        result = like(heap, source, promote(grad.dtype, source.dtype))
        for each in held:
            heap.release(each.storage)
        return [result]

    node.back = back


def _saves_argument(back: Back) -> None:
    @rule(
        "aten.silu",
        "aten.gelu",
        "aten.softplus",
        "aten.hardtanh",
        "aten.leaky_relu",
        "aten.log",
        "aten.abs",
        "aten.mish",
    )
    def saves_argument(call: Call) -> None:
        """The argument is saved; backward makes one tensor."""
        node = call.node(edges=call.tensors[:1])
        call.graph.save(node, call.tensors[0])
        node.back = back


def _saves_result(back: Back) -> None:
    @rule("aten.tanh", "aten.sigmoid", "aten.relu", "aten.exp", "aten.relu_", "aten.elu")
    def saves_result(call: Call) -> None:
        """The result is saved; backward makes one tensor."""
        node = call.node(edges=call.tensors[:1])
        call.graph.save(node, call.results[0])
        node.back = back


_saves_argument(one_new)
_saves_result(one_new)


@rule("aten.neg")
def neg(call: Call) -> None:
    """One new tensor."""
    call.node().back = one_new


@rule("aten.rsqrt", "aten.sqrt", "aten.reciprocal")
def rsqrt(call: Call) -> None:
    """The result is saved; -0.5 * grad * result ** 3 takes two temporaries."""
    node = call.node()
    call.graph.save(node, call.results[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        held = [like(heap, grad), like(heap, grad)]
        result = like(heap, grad)
        for each in held:
            heap.release(each.storage)
        return [result]

    node.back = back


@rule("aten.cos", "aten.sin")
def trigonometric(call: Call) -> None:
    """grad * self.cos(): one temporary beside the result."""
    node = call.node()
    call.graph.save(node, call.tensors[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        held = like(heap, first(grads))
        result = like(heap, first(grads))
        heap.release(held.storage)
        return [result]

    node.back = back


def _expanded(heap: Heap, grad: Tensor, shape: Shape) -> Tensor:
    """A gradient that stands for a whole dimension: a view without strides."""
    return (
        heap.view(grad, shape, (0,) * len(shape))
        if numel(grad.shape) != numel(shape)
        else heap.view(grad, shape, contiguous(shape))
    )


@rule("aten.mean")
def mean(call: Call) -> None:
    """The gradient is expanded and divided: a tensor of the argument's size."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [heap.new(shape, first(grads).dtype)]

    call.node(edges=[source]).back = back


@rule("aten.sum")
def sum_(call: Call) -> None:
    """The gradient is expanded: no bytes."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [_expanded(heap, first(grads), shape)]

    call.node(edges=[source]).back = back


@rule("aten.native_dropout")
def native_dropout(call: Call) -> None:
    """The mask is saved: a byte per element."""
    node = call.node(edges=call.tensors[:1], results=call.results[:1])
    call.graph.save(node, call.results[1])
    node.back = one_new


@rule("aten.masked_fill", "aten.masked_fill_")
def masked_fill(call: Call) -> None:
    """The mask is saved; backward fills a copy."""
    node = call.node(edges=call.tensors[:1])
    call.graph.save(node, call.tensors[1])
    node.back = one_new


@rule("aten.where")
def where(call: Call) -> None:
    """The condition is saved; each argument's gradient is a new tensor."""
    node = call.node()
    call.graph.save(node, call.tensors[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        return [None if edge is None else like(heap, grad) for edge in node.edges]

    node.back = back


@rule("aten.clamp", "aten.maximum", "aten.minimum")
def clamp(call: Call) -> None:
    """The argument is saved; a mask of a byte per element, then the product."""
    node = call.node(edges=call.tensors[:1])
    call.graph.save(node, call.tensors[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        mask = heap.new(grad.shape, "bool", "mask")
        result = like(heap, grad)
        heap.release(mask.storage)
        return [result]

    node.back = back


def item_bytes(tensor: Tensor) -> int:
    """Bytes of one element."""
    return ITEM[tensor.dtype]
