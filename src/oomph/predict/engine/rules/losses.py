"""Losses over classes.

Source: derivatives.yaml (nll_loss_forward, mse_loss), aten/src/ATen/native/cuda/NLLLoss2d.cu.
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, rule
from oomph.predict.engine.rules.pointwise import like


@rule("aten.nll_loss_forward", "aten.nll_loss2d_forward", "aten.nll_loss")
def nll_loss(call: Call) -> None:
    """Log-probabilities, targets and the total weight are saved; the gradient is a tensor of zeros that is filled."""
    source = call.tensors[0]
    node = call.node(edges=[source], results=call.results[:1])
    call.graph.save(node, *call.tensors[:2], *call.results[1:])
    node.metas = [source]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        source = node.metas[0]
        assert source is not None
        return [like(heap, source)]

    node.back = back


@rule("aten.mse_loss", "aten.binary_cross_entropy_with_logits", "aten.smooth_l1_loss", "aten.huber_loss")
def difference(call: Call) -> None:
    """Both arguments are saved; one new tensor."""
    node = call.node(edges=call.tensors[:1])
    call.graph.save(node, *call.tensors[:2])
    node.metas = [call.tensors[0]]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        source = node.metas[0]
        assert source is not None
        return [like(heap, source)]

    node.back = back
