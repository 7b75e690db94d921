"""Attention kernels: what they save, and what their backward takes beside the gradients.

Sources: aten/src/ATen/native/transformers/cuda/{flash_attn/flash_api.cpp,attention.cu,attention_backward.cu},
mem_eff_attention/kernel_backward.h; flash-attn's csrc/flash_attn/flash_api.cpp (mha_bwd). Arithmetic:
memory/kernels/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable

from oomph.memory.kernels.attention import efficient_workspace_bytes, round_up, rounded_head
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, contiguous, numel
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import like

#: Rows of the memory-efficient kernel's log-sum-exp (mem_eff_attention/kernel_forward.h: kAlignLSE).
_ROWS = 32


@rule("aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_cudnn_attention")
def flash(call: Call) -> None:
    """Queries, keys, values, output and the log-sum-exp of each row are saved."""
    _attention(call, _flash_back, 2)


@rule("flash_attn.forward", "flash_attn.varlen_forward")
def flash_package(call: Call) -> None:
    """The flash-attn package: (batch, rows, heads, width) instead of (batch, heads, rows, width)."""
    _attention(call, _package_back, 1)


@rule("aten._scaled_dot_product_efficient_attention")
def efficient(call: Call) -> None:
    """The same, for any dtype; a mask is saved too, and one that was learned has a gradient."""
    gpu, graph = call.gpu, call.graph
    dropout = call.number(5, 0.0) > 0

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        def workspace(sizes: tuple[int, int, int, int, int], half: bool) -> int:
            if gpu is None:
                return efficient_workspace_bytes(*sizes, half, (8, 0), dropout)
            return graph.ask(
                lambda other: efficient_workspace_bytes(*sizes, half, other.capability, dropout),
                gpu,
                -1 if heap.stopped else len(heap.events),
            )

        return _efficient_back(heap, node, grads, workspace)

    bias = call.tensors[3] if len(call.tensors) > 3 else None
    node = _attention(call, back, 2, None if bias is None or not bias.requires else bias)
    query = call.tensors[0]
    assert query is not None
    batch, heads, rows = query.shape[:3]
    if rows % _ROWS:
        # attention.cu, _efficient_attention_forward: logsumexp has rows for whole blocks (kAlignLSE)
        rest = call.graph.heap.new((batch, heads, round_up(rows, _ROWS) - rows), "fp32")
        call.graph.save(node, rest)
        call.graph.heap.release(rest.storage)


def _attention(call: Call, back: object, heads_at: int, bias: Tensor | None = None) -> Node:
    query, key, value = call.tensors[:3]
    edges = [query, key, value] if bias is None else [query, key, value, bias]
    node = call.node(edges=edges, results=call.results[:1])
    call.graph.save(node, *call.tensors, *call.results)
    node.metas = [query, key, value, call.results[0], bias]
    node.attributes["heads_at"] = heads_at
    node.back = back  # type: ignore[assignment]
    return node


def _gradients(heap: Heap, node: Node) -> list[Tensor | None]:
    """dq, dk, dv, laid out as the tensors are (empty_like)."""
    return [None if each is None else like(heap, each) for each in node.metas[:3]]


def _flash_back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
    grad = first(grads)
    query, key, _, out = node.metas[:4]
    assert query is not None
    assert key is not None
    batch, heads, rows, size = query.shape
    held = [
        heap.new(each.shape, each.dtype, "copy")
        for each in (grad, out)
        if each is not None and not _rows_first(each)
    ]
    found = _gradients(heap, node)
    rounded = round_up(rows, 128)
    sizes = [batch * heads * rounded * 4, batch * rounded * heads * rounded_head(size) * 4]
    if key.shape[1] != heads:
        sizes += [batch * key.shape[2] * heads * size * ITEM[key.dtype]] * 2
    heap.temporaries(sizes, "attention sums")
    for each in held:
        heap.release(each.storage)
    return _wanted(heap, node, found)


def _rows_first(tensor: Tensor) -> bool:
    """Whether (batch, heads, rows, width) lies as (batch, rows, heads, width) in memory."""
    heads, rows, size = tensor.shape[1:]
    expected = (rows * heads * size, size, heads * size, 1)
    return all(
        stride == wanted or length == 1
        for stride, wanted, length in zip(tensor.strides, expected, tensor.shape, strict=True)
    )


def _package_back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
    query, key = node.metas[:2]
    assert query is not None
    assert key is not None
    found = _gradients(heap, node)
    heads, size = query.shape[-2:]
    if len(query.shape) == 4:
        sequences, rows = query.shape[0], round_up(query.shape[1], 128)
    else:
        sequences, rows = 1, query.shape[0] + 128
    wide = round_up(size, 32 if size <= 128 else 64)
    sizes = [sequences * heads * rows * 4, sequences * rows * heads * wide * 4]
    if key.shape[-2] != heads:
        tokens = key.bytes // (key.shape[-2] * key.shape[-1])
        sizes += [tokens * heads * size] * 2
    heap.temporaries(sizes, "attention sums")
    return _wanted(heap, node, found)


def _efficient_back(
    heap: Heap, node: Node, grads: Grads, workspace: Callable[[tuple[int, int, int, int, int], bool], int]
) -> list[Tensor | None]:
    grad = first(grads)
    query, key, value = node.metas[:3]
    assert query is not None
    assert key is not None
    assert value is not None
    batch, heads, rows, size = query.shape
    found = _gradients(heap, node)
    bias = node.metas[4]
    if bias is not None:
        # Its rows begin at multiples of 16 elements (_efficient_attention_backward).
        padded = (*bias.shape[:-1], round_up(bias.shape[-1], 16))
        storage = heap.allocate(numel(padded) * ITEM[query.dtype], "gradient of the mask")
        found.append(Tensor(storage, bias.shape, contiguous(padded), query.dtype))
    half = ITEM[query.dtype] == 2
    row_sums = 4 * batch * heads * rows
    if half:
        sums = [heap.allocate(row_sums, "row sums")]
    else:
        held = [heap.allocate(grad.bytes, "products"), heap.allocate(row_sums, "strided sums")]
        sums = [heap.allocate(row_sums, "row sums")]
        for storage in reversed(held):
            heap.release(storage)
    size_bytes = workspace((batch * heads, rows, key.shape[2], size, value.shape[-1]), half)
    heap.temporaries([size_bytes], "attention sums")
    for storage in sums:
        heap.release(storage)
    return _wanted(heap, node, found)


def _wanted(heap: Heap, node: Node, found: list[Tensor | None]) -> list[Tensor | None]:
    return found
