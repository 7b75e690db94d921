"""Losses that are not the recorded one: fused kernels, and logits that are not cast.

Sources: Liger-Kernel (src/liger_kernel/ops/fused_linear_cross_entropy.py: chunks of the next power of two of
tokens / ceil(vocabulary / hidden), gradients made in forward; ops/cross_entropy.py: the gradient is written over the
logits), unsloth's and fms-acceleration's cross entropy (in place too). docs/terms/loss.md has the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.errors import UsageError
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, contiguous, numel
from oomph.predict.engine.play import apply
from oomph.predict.engine.scope import Scope
from oomph.predict.programs.load import Section

FUSED = "triton_ce"
LINEAR = "fused_linear_ce"
LOW = "eager_bf16"
RECORDED = "eager_fp32"
PARALLEL = "loss_parallel"
#: No job can ask for it: a script takes the mean of the logits as its loss.
MEAN = "mean"


def fused(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> bool:
    """One kernel for log-softmax, loss and gradient: nothing beside the logits, which become their own gradient."""
    if name.startswith("aten._log_softmax"):
        source = scope.tensor(arguments[0]["t"])
        scope.tensors[results[0]] = source
        source.storage.refs += 1
        scope.storages[scope.program.tensors[results[0]][0]] = source.storage
        return True
    if not name.startswith("aten.nll_loss"):
        return False
    logits = scope.tensor(arguments[0]["t"])
    rows = logits.shape[0]
    loss = scope.heap.new((), "fp32", "loss")
    sums = scope.heap.new((rows,), "fp32", "log-sum-exp")
    if scope.graph is not None and logits.requires:
        node = scope.graph.add("fused cross entropy", [logits], [loss])
        scope.graph.save(node, logits, sums)
        node.metas = [logits]
        node.back = _in_place
    scope.heap.release(sums.storage)
    scope.tensors[results[0]] = loss
    scope.storages[scope.program.tensors[results[0]][0]] = loss.storage
    return True


def fused_without_autocast(*sections: Section) -> Any:
    """`fused`, which autocast does not see: where it casts what the recorded loss is given, nothing is cast."""
    asked = {
        item[2][0]["t"]
        for section in sections
        for item in section.items
        if item[0] == "op" and item[1].startswith(("aten._log_softmax", "aten.nll_loss"))
    }

    def instead(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> bool:
        if name.startswith("aten._to_copy") and results[0] in asked:
            source = scope.tensor(arguments[0]["t"])
            scope.tensors[results[0]] = source
            source.storage.refs += 1
            scope.storages[scope.program.tensors[results[0]][0]] = source.storage
            return True
        return fused(scope, name, arguments, results)

    return instead


def _in_place(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    logits = node.metas[0]
    assert logits is not None
    return [heap.view(logits, logits.shape, logits.strides)]


def parallel(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> bool:
    """Logits that stay divided by the vocabulary: log-softmax and its gradient are written as operators of their own
    (torch/distributed/tensor/parallel/loss.py: _log_softmax, _nll_loss_and_log_softmax_backward)."""
    heap = scope.heap
    if name.startswith("aten._log_softmax"):
        source = scope.tensor(arguments[0]["t"])
        shifted = heap.new(source.shape, source.dtype, "shifted logits")
        heap.release(heap.new(source.shape, source.dtype, "exponentials").storage)
        result = heap.new(source.shape, source.dtype, "log-softmax")
        heap.release(shifted.storage)
        if scope.graph is not None and source.requires:
            node = scope.graph.add("parallel log-softmax", [source], [result])
            scope.graph.save(node, result)
            node.back = _passes
        scope.tensors[results[0]] = result
        scope.storages[scope.program.tensors[results[0]][0]] = result.storage
        return True
    if not name.startswith("aten.nll_loss"):
        return False
    logs = scope.tensor(arguments[0]["t"])
    loss = heap.new((), "fp32", "loss")
    if scope.graph is not None and logs.requires:
        node = scope.graph.add("parallel cross entropy", [logs], [loss])
        scope.graph.save(node, logs)
        node.metas = [logs]
        node.back = _parallel_backward
    scope.tensors[results[0]] = loss
    scope.storages[scope.program.tensors[results[0]][0]] = loss.storage
    return True


def _passes(heap: Heap, _node: Node, grads: Grads) -> list[Tensor | None]:
    grad = grads[0]
    assert grad is not None
    return [heap.view(grad, grad.shape, grad.strides)]


def _parallel_backward(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    """(zeros with the targets filled in + exp(log-softmax)) * gradient."""
    logs = node.metas[0]
    assert logs is not None
    zeros, exponentials, total = (
        heap.new(logs.shape, logs.dtype, name) for name in ("zeros", "exponentials", "sum")
    )
    heap.release(exponentials.storage)
    result = heap.new(logs.shape, logs.dtype, "gradient of the logits")
    heap.release(total.storage)
    heap.release(zeros.storage)
    return [result]


def low(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> bool:
    """The cast of the logits to fp32 is not there; what follows has their dtype."""
    if not name.startswith("aten._to_copy"):
        return False
    source = scope.tensor(arguments[0]["t"])
    if source.dtype not in ("bf16", "fp16"):
        return False
    scope.tensors[results[0]] = source
    source.storage.refs += 1
    scope.storages[scope.program.tensors[results[0]][0]] = source.storage
    scope.low.add(results[0])
    return True


def mean(scope: Scope, logits: Tensor) -> Tensor:
    """The mean of all logits; its gradient is a tensor of their size (derivatives.yaml, mean)."""
    heap = scope.heap
    loss = heap.new((), logits.dtype, "loss")
    if scope.graph is not None and logits.requires:
        node = scope.graph.add("mean", [logits], [loss])
        node.metas = [logits]
        node.back = _spread
    return loss


def _spread(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    logits = node.metas[0]
    assert logits is not None
    return [heap.new(logits.shape, logits.dtype, "gradient of the logits")]


def split_at_head(section: Section, scope: Scope, head: str) -> tuple[Section, int, str]:
    """The part of `after` before the output layer's weight is used, the number of the tensor that the output layer
    multiplies, and the weight's name."""
    for position, item in enumerate(section.items):
        if item[0] != "op":
            continue
        for each in item[2]:
            if isinstance(each, dict) and "t" in each:
                storage = scope.program.tensors[each["t"]][0]
                described = scope.program.storages[storage]
                if described[0] == "parameter" and described[2] == head:
                    return _before(section, position, head)
    raise UsageError(
        "unsupported: the program's output layer was not found, so its fused loss cannot be composed."
    )


def _before(section: Section, position: int, head: str) -> tuple[Section, int, str]:
    items = section.items[:position]
    last = next(item for item in reversed(items) if item[0] == "op" and item[3] and item[3][0] is not None)
    return Section(items, section.inlet, last[3][0]), last[3][0], head


def fused_linear(scope: Scope, hidden: Tensor, vocab: int, weight_trains: bool, weight_dtype: str) -> Tensor:
    """Liger's linear layer and cross entropy: the hidden states are shifted and copied, logits exist a chunk at a time,
    and the gradients of hidden states and weight are made in forward."""
    heap = scope.heap
    tokens, width = numel(hidden.shape[:-1]), hidden.shape[-1]
    dtype = "bf16" if scope.autocast and hidden.dtype == "fp32" else hidden.dtype
    shifted = apply(scope, "aten.clone", [hidden], hidden.shape, hidden.dtype)
    chunks = -(-vocab // width)
    size = 1 << max(0, (-(-tokens // chunks) - 1).bit_length())
    size = min(size, tokens)
    loss = heap.new((), "fp32", "loss")
    grad_input = heap.new((tokens, width), hidden.dtype, "gradient of the hidden states")
    grad_weight = (
        heap.new((vocab, width), weight_dtype, "gradient of the output layer") if weight_trains else None
    )
    losses = heap.new((tokens,), "fp32", "losses")
    # A chunk's logits and their fp32 copy, which becomes the gradient, is cast back and scaled.
    heap.temporaries([size * vocab * ITEM[dtype], size * vocab * 4], "chunk of logits")
    heap.release(losses.storage)
    leaf = Tensor(hidden.storage, (vocab, width), contiguous((vocab, width)), weight_dtype)
    leaf.parameter, leaf.requires = scope.head, weight_trains
    if scope.graph is not None and (shifted.requires or weight_trains):
        node = scope.graph.add(
            "fused linear cross entropy", [shifted, leaf if weight_trains else None], [loss]
        )
        scope.graph.save(node, grad_input, grad_weight)
        node.metas = [grad_input, grad_weight, shifted]
        node.back = _made_in_forward
    heap.release(shifted.storage)
    heap.release(grad_input.storage)
    if grad_weight is not None:
        heap.release(grad_weight.storage)
    return loss


def _made_in_forward(heap: Heap, node: Node, _grads: Grads) -> list[Tensor | None]:
    grad_input, grad_weight, shifted = node.metas
    assert grad_input is not None
    assert shifted is not None
    found: list[Tensor | None] = [heap.view(grad_input, shifted.shape, contiguous(shifted.shape))]
    found.append(
        None if grad_weight is None else heap.view(grad_weight, grad_weight.shape, grad_weight.strides)
    )
    return found
