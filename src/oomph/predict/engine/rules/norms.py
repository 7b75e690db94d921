"""Normalisations as single kernels, softmax.

Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (layer_norm_backward_cuda: partial gradients of many rows),
SoftMax.cu; derivatives.yaml (native_layer_norm, _fused_rms_norm, _softmax).
"""

from __future__ import annotations

from oomph.hardware.gpus import Gpu
from oomph.memory.kernels.layer_norm import partial_bytes
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, contiguous, numel
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import like
from oomph.predict.engine.rules.views import dense_copy


@rule("aten.native_layer_norm", "aten._fused_rms_norm")
def norm(call: Call) -> None:
    """Input and statistics are saved; backward makes the gradients of input, weight and bias."""
    arguments = [each for each in call.tensors if each is not None]
    node = call.node(edges=arguments, results=call.results[:1])
    call.graph.save(node, arguments[0], *call.results[1:])
    node.metas = list(arguments)
    gpu, torch, graph = call.gpu, call.torch, call.graph

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad, source = first(grads), node.metas[0]
        assert source is not None
        held = dense_copy(heap, grad)
        found: list[Tensor | None] = [None if node.edges[0] is None else like(heap, source)]
        partials = []
        for edge, weight in zip(node.edges[1:], node.metas[1:], strict=True):
            if edge is None or weight is None:
                found.append(None)
                continue
            found.append(heap.new(weight.shape, weight.dtype))
            columns = numel(weight.shape)
            rows = numel(source.shape) // max(1, columns)
            partials.append(_partial(graph, gpu, (rows, columns, ITEM[weight.dtype]), torch))
        heap.temporaries(partials, "partial gradients")
        heap.release(held.storage)
        return found

    node.back = back


def _partial(graph: Graph, gpu: Gpu | None, sizes: tuple[int, int, int], torch: tuple[int, int]) -> int:
    """Bytes of a weight's partial gradients; a GPU that is not named is taken to be an A100."""
    if gpu is None:
        return partial_bytes(*sizes, 108, torch)
    return graph.ask(lambda gpu: partial_bytes(*sizes, gpu.multiprocessors, torch), gpu)


@rule("aten._softmax", "aten._safe_softmax", "aten._log_softmax")
def softmax(call: Call) -> None:
    """The result is saved; the gradient has the argument's dtype. A strided gradient is copied first."""
    source = call.tensors[0]
    assert source is not None
    dtype = source.dtype
    node = call.node(edges=[source])
    call.graph.save(node, call.results[0])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        held = dense_copy(heap, grad)
        result = heap.new(grad.shape, dtype, "", contiguous(grad.shape))
        heap.release(held.storage)
        return [result]

    node.back = back
