"""Autograd on sizes: what each operator saves, and the order in which backward allocates and frees.

Sources: torch/csrc/autograd/engine.cpp (evaluate_function, call_function: inputs go, then saved tensors, then results
are handed on; validate_outputs), input_buffer.cpp (can_accumulate_inplace), functions/accumulate_grad.h (a gradient
that nobody else holds is taken as it is).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from oomph.hardware.gpus import Gpu
from oomph.memory.categories import Category
from oomph.memory.kernels.iteration import reduction
from oomph.memory.kernels.reduce_launch import Kernel, scratch
from oomph.predict.engine.asked import Question
from oomph.predict.engine.compiled import HEAVY
from oomph.predict.engine.heap import ITEM, Heap, Shape, Storage, Tensor, contiguous, is_dense, numel

Answer = TypeVar("Answer")

#: Gradients of a node's results, one per result; None where none came.
Grads = list[Tensor | None]


class Node:
    """One operator in the graph. `edges` are its differentiable arguments (None where no gradient is wanted)."""

    __slots__ = (
        "attributes",
        "back",
        "edges",
        "fused",
        "grads",
        "metas",
        "name",
        "results",
        "saved",
        "sequence",
    )

    def __init__(self, sequence: int, name: str, edges: list[Edge | None], results: Sequence[Tensor]) -> None:
        self.sequence = sequence
        self.name = name
        self.edges = edges
        self.results = [(each.shape, each.dtype) for each in results]
        self.saved: list[Storage] = []
        self.grads: Grads = [None] * len(results)
        self.back: Callable[[Heap, Node, Grads], Sequence[Tensor | None]] | None = None
        self.metas: list[Tensor | None] = []
        self.attributes: dict[str, object] = {}
        self.fused = False


@dataclass(eq=False, slots=True)
class Edge:
    """Where a gradient goes: a node's result, or a leaf (`node` None)."""

    node: Node | None
    index: int
    parameter: str
    shape: Shape
    dtype: str


class _Processors(NamedTuple):
    multiprocessors: int
    threads_per_multiprocessor: int


@dataclass(frozen=True)
class LeafGrad:
    """A gradient that reached a leaf."""

    parameter: str
    tensor: Tensor


@lru_cache(maxsize=1024)
def _partial_sums(
    shape: Shape, strides: Shape, dims: Shape, item: int, gpu: tuple[int, int], torch: tuple[int, int]
) -> int:
    whole = reduction(shape, strides, dims, item, [item])
    launches = (scratch(part, Kernel(item, 4), _Processors(*gpu), torch) for part in whole.parts())
    return max((0 if each is None else each.buffer_bytes for each in launches), default=0)


def sum_question(grad: Tensor, shape: Shape, torch: tuple[int, int]) -> Callable[[Gpu], int]:
    """Bytes of partial results when a gradient is summed to a shape (at::sum_to: over what is broadcast), as a question
    to a GPU."""
    leading = len(grad.shape) - len(shape)
    dims = tuple(
        dim
        for dim, size in enumerate(grad.shape)
        if dim < leading or (shape[dim - leading] == 1 and size != 1)
    )
    source, strides, item = grad.shape, grad.strides, ITEM[grad.dtype]
    return lambda gpu: _partial_sums(
        source, strides, dims, item, (gpu.multiprocessors, gpu.threads_per_multiprocessor), torch
    )


class Graph:
    """The nodes of one forward, and their backward."""

    def __init__(
        self,
        heap: Heap,
        *,
        accumulates: bool = False,
        fused: bool = False,
        gpu: Gpu | None = None,
        torch: tuple[int, int] = (2, 13),
    ) -> None:
        self.heap = heap
        self.gpu = gpu
        self.torch = torch
        #: What nodes saved is handed to them by a checkpoint that is not reentrant and keeps none of it: it goes when a
        #: node's function returns, before its results are summed or cast (checkpoint.py, unpack_hook).
        self.unpacks = False
        self.nodes: list[Node] = []
        self.accumulates = accumulates
        #: Compiled: what works element by element exists only where a kernel of its own reads it.
        self.fused = fused
        #: Of a tensor that is saved, the storages that are kept in its place.
        self.kept_for: Callable[[Tensor], Sequence[Storage]] | None = None
        #: How many tensors were saved; by which operator each storage.
        self.saves = 0
        self.read_by: list[tuple[str, Storage]] = []
        #: Gradients of parameters in the order in which they were made, and of other leaves.
        self.leaves: list[LeafGrad] = []
        self._held: dict[str, Tensor] = {}
        self.asked: list[Question] = []
        self.left_loss = (0, 0)
        #: The events and blocks when the first node ran that has saved something.
        self.first_unpack = (0, 0)

    def edge(self, tensor: Tensor | None) -> Edge | None:
        """Where this argument's gradient goes; None for what wants none."""
        if tensor is None or not tensor.requires:
            return None
        node = tensor.node
        its = node if isinstance(node, Node) else None
        return Edge(its, tensor.index, tensor.parameter, tensor.shape, tensor.dtype)

    def add(self, name: str, arguments: Sequence[Tensor | None], results: Sequence[Tensor]) -> Node:
        """A node for an operator of which some argument wants a gradient; its results want one from here on."""
        edges = [None if each is None or not each.requires else self.edge(each) for each in arguments]
        node = Node(len(self.nodes), name, edges, results)
        node.fused = self.fused
        for index, result in enumerate(results):
            result.node, result.index, result.requires = node, index, True
        self.nodes.append(node)
        return node

    def ask(self, question: Callable[[Gpu], Answer], gpu: Gpu, event: int = -1) -> Answer:
        """Asks the GPU, and keeps the question with its answer. `event`: as `Question` has it."""
        answer = question(gpu)
        self.asked.append(Question(question, answer, event))
        return answer

    def end(self) -> None:
        """Nothing runs any more: nodes and tensors that hold each other let go."""
        for node in self.nodes:
            node.back = None
            node.metas = []
            node.edges = []

    def forget(self, node: Node) -> None:
        """What a node keeps is let go: another one stands for it."""
        self.drop_saved(node)

    def save(self, node: Node, *tensors: Tensor | None) -> None:
        """The node keeps these until its backward is done."""
        for tensor in tensors:
            if tensor is not None:
                self.saves += 1
                self.read_by.append((node.name, tensor.storage))
                for storage in (tensor.storage,) if self.kept_for is None else self.kept_for(tensor):
                    storage.refs += 1
                    node.saved.append(storage)

    def backward(self, root: Tensor, grad: Tensor, stop: Node | None = None, until: int = 0) -> None:
        """Runs backward from `root`, whose gradient is `grad` (one reference of it is taken over), down to `stop`,
        which is left with its gradient. `until`: the number of nodes that the model made, where the loss is its
        caller's: `left_loss` are the events and blocks when backward comes to them."""
        node = root.node
        if not isinstance(node, Node):
            self._leaf(Edge(None, 0, root.parameter, root.shape, root.dtype), grad)
            return
        node.grads[root.index] = grad
        for each in reversed(self.nodes[: node.sequence + 1]):
            if until and each.sequence < until and not self.left_loss[0]:
                self.left_loss = (len(self.heap.events), len(self.heap.sizes))
            if each is stop:
                if each.fused and each.grads[0] is not None:
                    each.grads[0] = self._real(each.grads[0])
                return
            if any(got is not None for got in each.grads):
                self._run(each)
            else:
                self.drop_saved(each)

    def drop_saved(self, node: Node) -> None:
        """What the node has kept is kept no longer."""
        for storage in node.saved:
            self.heap.release(storage)
        node.saved = []

    def run(self, node: Node) -> None:
        """One node: its function, then its results go on."""
        self._run(node)

    def _run(self, node: Node) -> None:
        heap = self.heap
        grads, node.grads = node.grads, [None] * len(node.grads)
        back = node.back
        assert back is not None
        if node.saved and not self.first_unpack[0]:
            self.first_unpack = (len(heap.events), len(heap.sizes))
        heap.where = node.name
        category, heap.category = heap.category, Category.TEMPORARIES
        self.fused = node.fused
        fused = node.fused and node.name not in HEAVY
        if not fused:
            grads = [None if grad is None else self._real(grad) for grad in grads]
        heap.stopped = fused
        results = list(back(heap, node, grads))
        if self.unpacks and not fused:
            self.drop_saved(node)
        for number, (result, edge) in enumerate(zip(results, node.edges, strict=True)):
            if result is None:
                continue
            if edge is None:
                heap.release(result.storage)
                results[number] = None
                continue
            results[number] = self._fitted(result, edge)
        heap.stopped = False
        if fused:
            self._carry(results, grads)
        for grad in grads:
            if grad is not None:
                heap.release(grad.storage)
        heap.category = category
        self.drop_saved(node)
        for result, edge in zip(results, node.edges, strict=True):
            if result is not None and edge is not None:
                self._send(edge, result)

    def _carry(self, results: Sequence[Tensor | None], grads: Grads) -> None:
        """What was fused holds what it is made from."""
        sources = [grad.storage for grad in grads if grad is not None]
        for result in results:
            if (
                result is None
                or result.storage.number >= 0
                or result.storage in sources
                or result.storage.carries
            ):
                continue
            result.storage.carries = tuple(sources)
            for storage in sources:
                storage.refs += 1

    def _real(self, tensor: Tensor) -> Tensor:
        """A tensor that a kernel of its own reads: it is written to memory, and what it was made from is let go."""
        if tensor.storage.number >= 0:
            return tensor
        made = self.heap.new(
            tensor.shape, tensor.dtype, "fused", tensor.strides if is_dense(tensor) else None
        )
        self.heap.release(tensor.storage)
        return made

    def _fitted(self, grad: Tensor, edge: Edge) -> Tensor:
        """A gradient of another shape is summed, one of another dtype is cast (validate_outputs)."""
        heap = self.heap
        if grad.shape != edge.shape:
            if numel(grad.shape) == numel(edge.shape):
                fitted = heap.view(grad, edge.shape, contiguous(edge.shape))
            else:
                fitted = heap.new(edge.shape, grad.dtype, "sum")
                self._scratch(grad, edge.shape)
            heap.release(grad.storage)
            grad = fitted
        if grad.dtype != edge.dtype:
            fitted = heap.new(edge.shape, edge.dtype, "cast")
            heap.release(grad.storage)
            grad = fitted
        return grad

    def _scratch(self, grad: Tensor, shape: Shape) -> None:
        """What thread blocks that share a sum's results write for each other (Reduce.cuh)."""
        if self.gpu is None or not is_dense(grad):
            return
        event = -1 if self.heap.stopped else len(self.heap.events)
        size = self.ask(sum_question(grad, shape, self.torch), self.gpu, event)
        if size:
            self.heap.release(self.heap.allocate(size, "partial sums", Category.TEMPORARIES))

    def _send(self, edge: Edge, grad: Tensor) -> None:
        if edge.node is None:
            self._leaf(edge, grad)
            return
        there = edge.node.grads[edge.index]
        edge.node.grads[edge.index] = grad if there is None else self._sum(there, grad)

    def _sum(self, old: Tensor, new: Tensor) -> Tensor:
        """In place where nobody else holds the older one, else a new tensor."""
        heap = self.heap
        if self.fused:
            both = Tensor(Storage(-1, "sum"), old.shape, contiguous(old.shape), old.dtype)
            both.storage.carries = (old.storage, new.storage)
            return both
        if old.storage.refs == 1 and not old.looks and is_dense(old):
            heap.release(new.storage)
            return old
        strides = old.strides if is_dense(old) else contiguous(old.shape)
        total = heap.new(old.shape, old.dtype, "accumulate", strides)
        heap.release(old.storage)
        heap.release(new.storage)
        return total

    def _leaf(self, edge: Edge, grad: Tensor) -> None:
        heap = self.heap
        if self.fused:
            grad = self._real(grad)
        if self.accumulates and edge.parameter:
            heap.release(grad.storage)
            return
        held = self._held.get(edge.parameter)
        if held is not None:
            heap.release(grad.storage)
            return
        if grad.storage.refs > 1 or not is_dense(grad):
            taken = heap.new(grad.shape, grad.dtype, "gradient")
            heap.release(grad.storage)
            grad = taken
        if edge.parameter and grad.storage.number >= 0:
            heap.labels[grad.storage.number] = (Category.GRADIENTS, edge.parameter)
        self._held[edge.parameter] = grad
        self.leaves.append(LeafGrad(edge.parameter, grad))
