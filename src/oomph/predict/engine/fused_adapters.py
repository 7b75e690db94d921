"""LoRA on quantised layers as one autograd function, as unsloth's kernels do it.

Source: fms-acceleration, plugins/fused-ops-and-kernels, fused_ops/unsloth_lora (bnb/fast_lora.py: LoRA_QKV, LoRA_W;
utils.py: matmul_lora): the input and what dropout made of it are saved, no mask is; in backward the input's gradient of
the three projections is written over the input, and each product is masked by `X != 0`.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.memory.categories import Category
from oomph.predict.engine.adapters import PeftAdapters
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, contiguous, numel
from oomph.predict.engine.scope import Scope

_IN_PLACE = ("q_proj", "k_proj", "v_proj")
#: The projection whose node runs first in backward and writes the input's gradient; the others add to it.
_WRITES = "v_proj"


@dataclass
class FusedAdapters(PeftAdapters):
    """Adapters of quantised attention projections; all others as PEFT has them."""

    def _adapt(self, scope: Scope, module: str, source: Tensor, result: int) -> None:
        if not self.quantized(module) or scope.graph is None:
            super()._adapt(scope, module, source, result)
            return
        heap = scope.heap
        base = scope.tensors[result]
        dropped = source
        if self.dropout > 0:
            dropped = heap.new(source.shape, source.dtype, "aten.native_dropout")
            heap.temporaries([numel(source.shape)], "mask")
        rows = numel(source.shape) // source.shape[-1]
        heap.temporaries([rows * self.rank * ITEM[base.dtype], base.bytes], "adapter")
        self._enter(scope, module, source, dropped, base)
        if dropped is not source:
            heap.release(dropped.storage)

    def _enter(self, scope: Scope, module: str, source: Tensor, dropped: Tensor, base: Tensor) -> None:
        graph = scope.graph
        assert graph is not None
        shapes = ((self.rank, source.shape[-1]), (base.shape[-1], self.rank))
        leaves = []
        for letter, shape in zip("AB", shapes, strict=True):
            leaf = Tensor(scope.heap.hand_nothing(), shape, contiguous(shape), self.dtype)
            leaf.parameter, leaf.requires = f"{module}.lora_{letter}", True
            leaves.append(leaf)
        # The layer's own product has no node of its own in this function.
        if isinstance(base.node, Node):
            graph.forget(base.node)
        node = graph.add("fused lora", [source, *leaves], [base])
        graph.save(node, source, dropped)
        node.metas = [source, base, *leaves]
        name = module.rpartition(".")[2]
        in_place = name in _IN_PLACE
        node.attributes = {"in_place": in_place, "writes": name == _WRITES}
        node.back = _back


def _back(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    source, base, *leaves = node.metas
    assert source is not None
    assert base is not None
    found: list[Tensor | None] = [None]
    found += [None if leaf is None else heap.new(leaf.shape, base.dtype) for leaf in leaves]
    weight = source.shape[-1] * base.shape[-1] * ITEM[base.dtype]
    held = [heap.allocate(weight, "dequantised weight", Category.TEMPORARIES)]
    if node.attributes["in_place"]:
        if node.attributes["writes"] and node.edges[0] is not None:
            found[0] = heap.view(source, source.shape, contiguous(source.shape))
        held.append(heap.allocate(source.bytes, "product", Category.TEMPORARIES))
    elif node.edges[0] is not None:
        found[0] = heap.new(source.shape, source.dtype)
    for storage in held:
        heap.release(storage)
    heap.temporaries([numel(source.shape), source.bytes, source.bytes], "masked product")
    return found
