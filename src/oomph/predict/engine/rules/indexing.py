"""Embeddings, gathers and index operations.

Source: derivatives.yaml; aten/src/ATen/native/cuda/Embedding.cu (memory/kernels/embedding.py has the arithmetic).
"""

from __future__ import annotations

from oomph.hardware.gpus import Gpu
from oomph.memory.categories import Category
from oomph.memory.kernels.embedding import Gradient
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Storage, Tensor, numel
from oomph.predict.engine.rules.base import Call, first, rule

_AT_ONCE = ("unique", "scan")


@rule("aten.embedding", "oomph.vocab_embedding")
def embedding(call: Call) -> None:
    """The indices are saved; they are sorted, and rows are summed in float32. Where tensor parallelism divides the
    weight, the gradient is made whole (torch/distributed/tensor/_ops/_embedding_ops.py), and cut afterwards."""
    weight, indices = call.tensors[0], call.tensors[1]
    assert weight is not None
    assert indices is not None
    node = call.node(edges=[weight])
    call.graph.save(node, indices)
    rows, columns = weight.shape
    if call.name == "oomph.vocab_embedding":
        rows *= int(call.number(2, 1))
    count, width = numel(indices.shape), ITEM[indices.dtype]
    gpu, torch, graph = call.gpu, call.torch, call.graph

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        item = ITEM[grad.dtype]

        def takes(gpu: Gpu | None) -> tuple[dict[str, int], dict[str, int]]:
            multiprocessors = 108 if gpu is None else gpu.multiprocessors
            gradient = Gradient(
                count, width, rows, columns, item, 4 if item < 4 else item, multiprocessors, torch
            )
            sorting = gradient.sorting()
            return sorting, gradient.sums() if sorting else {}

        sorting, summing = takes(None) if gpu is None else graph.ask(takes, gpu)
        held: list[Storage] = []
        for name, size in sorting.items():
            held.append(heap.allocate(size, name, Category.TEMPORARIES))
        for name in ("sort", "range"):
            for storage in [each for each in held if each.name == name]:
                held.remove(storage)
                heap.release(storage)
        result = heap.new((rows, columns), grad.dtype)
        for name, size in summing.items():
            storage = heap.allocate(size, name, Category.TEMPORARIES)
            if name in _AT_ONCE:
                heap.release(storage)
            else:
                held.append(storage)
        for storage in held:
            heap.release(storage)
        return [result]

    node.back = back


@rule("aten.index", "aten.gather", "aten.index_select", "aten.take_along_dim")
def index(call: Call) -> None:
    """The indices are saved, and by gather its argument too (derivatives.yaml, gather_backward); the gradient is a
    tensor of zeros of the argument's shape."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape
    node = call.node(edges=[source])
    call.graph.save(node, *(call.tensors if call.name.startswith("aten.gather") else call.tensors[1:]))

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [heap.new(shape, first(grads).dtype)]

    node.back = back


@rule("aten.masked_scatter")
def masked_scatter(call: Call) -> None:
    """The mask is saved. The first argument's gradient is filled where it is true; the source's is selected by it,
    which finds the places first: a number of 64 bits for each dimension of each element (derivatives.yaml,
    masked_scatter_backward; cuda/IndexKernel.cpp, masked_select_out_cuda_impl)."""
    target, mask, source = call.tensors[:3]
    assert target is not None
    assert source is not None
    dimensions, shape = len(target.shape), source.shape
    node = call.node(edges=[target, source])
    call.graph.save(node, mask)

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        found: list[Tensor | None] = [None, None]
        if node.edges[0] is not None:
            found[0] = heap.new(grad.shape, grad.dtype)
        if node.edges[1] is not None:
            places = heap.allocate(8 * dimensions * numel(shape), "places of a mask", Category.TEMPORARIES)
            found[1] = heap.new(shape, grad.dtype)
            heap.release(places)
        return found

    node.back = back


@rule("aten.topk", "aten.max")
def selected(call: Call) -> None:
    """The values have a gradient (a router's weights, say), for which the indices are saved: zeros of the argument's
    shape, into which it is scattered (derivatives.yaml, value_selecting_reduction_backward)."""
    source = call.tensors[0]
    assert source is not None
    shape = source.shape
    node = call.node(edges=[source], results=call.results[:1])
    call.graph.save(node, call.results[1])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [heap.new(shape, first(grads).dtype)]

    node.back = back


@rule(
    "aten.index_copy",
    "aten.index_copy_",
    "aten.index_add",
    "aten.index_add_",
    "aten.index_put",
    "aten.index_put_",
    "aten.scatter",
    "aten.scatter_add",
)
def scatter(call: Call) -> None:
    """The index is saved, and the source with index_copy (its derivative asks for it); the gradient of what is written
    to is a copy, that of the source is gathered."""
    target, source = call.tensors[0], call.tensors[-1]
    assert source is not None
    shape = source.shape
    node = call.node(edges=[target, source])
    call.graph.save(node, *call.tensors[1:-1])
    if "index_copy" in call.name:
        call.graph.save(node, source)
    copied = "add" not in call.name

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        found: list[Tensor | None] = [None, None]
        if node.edges[0] is not None:
            found[0] = (
                heap.new(grad.shape, grad.dtype) if copied else heap.view(grad, grad.shape, grad.strides)
            )
        if node.edges[1] is not None:
            found[1] = heap.new(shape, grad.dtype)
        return found

    node.back = back
