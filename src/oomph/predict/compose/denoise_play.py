"""One forward and backward of a denoiser, played on one heap and one graph: parts hand any number of tensors to each
other, and all of them to what shares them (the timestep's embedding, positions).

A checkpointed module is one node: it keeps what came in, and its backward runs the module again and then the backward
of what it made (torch/utils/checkpoint.py, not reentrant; diffusers/models/modeling_utils.py,
enable_gradient_checkpointing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oomph.memory.categories import Category
from oomph.predict.compose.denoise_log import GradOf, Log, Segment
from oomph.predict.compose.denoise_setup import Denoising
from oomph.predict.compose.denoise_widening import DenoiserWidening
from oomph.predict.engine.adapters import PeftAdapters
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Storage, Tensor
from oomph.predict.engine.play import run
from oomph.predict.engine.program import Values
from oomph.predict.engine.scope import Scope
from oomph.predict.programs.load import Program
from oomph.predict.programs.parts import Part
from oomph.predict.sink import rounded


@dataclass
class _Ran:
    """A part that ran: its nodes."""

    module: str
    first: int
    last: int


@dataclass(frozen=True)
class _Dry:
    """What a module with gradients does: the item with the last tensor that it saves, and which of its tensors want a
    gradient."""

    last_save: int
    wanted: frozenset[int]


@dataclass
class Player:
    """Plays one forward and backward. `accumulates`: gradients are there, and new ones are added to them. `grad`: with
    a backward."""

    denoising: Denoising
    accumulates: bool = False
    grad: bool = True
    heap: Heap = field(default_factory=Heap)
    _latest: dict[str, Scope] = field(default_factory=dict)
    _cached: dict[str, Tensor] = field(default_factory=dict)
    _dry: dict[tuple[int, tuple[bool, ...]], _Dry] = field(default_factory=dict)
    _ran: list[_Ran] = field(default_factory=list)

    def __post_init__(self) -> None:
        setup = self.denoising.setup
        self.values = Values(self.denoising.dims)
        self.graph = Graph(self.heap, accumulates=self.accumulates, gpu=setup.gpu, torch=setup.torch)
        self.outlets: dict[str, set[int]] = {}
        #: Storages of each part that others hold or let go.
        self.handed: dict[str, set[int]] = {}
        self._look()

    def log(self) -> Log:
        """Plays all of it."""
        forward = self._forward()
        kept = self.denoising.variant.kept
        tensors = {name: self._latest[part].tensor(number) for name, (part, number) in kept.items()}
        backward = self._backward(tensors["loss"]) if self.grad else ()
        blocks = dict.fromkeys(each.storage.number for each in tensors.values() if each.storage.refs > 0)
        return Log(
            tuple(self.heap.events),
            tuple(self.heap.sizes),
            tuple(self.heap.labels),
            tuple(forward),
            tuple(backward),
            tuple(each for each in blocks if each >= 0),
            self._inputs(),
        )

    def _inputs(self) -> int:
        """Bytes of the batch."""
        found: dict[str, int] = {}
        for scope in self._latest.values():
            for storage in scope.program.storages:
                if storage[0] == "input":
                    found[storage[2]] = rounded(self.values[str(storage[1])])
        return sum(found.values())

    def _look(self) -> None:
        """Which tensors and storages of each part others name."""
        variant = self.denoising.variant
        for entry in variant.order:
            both = (variant.part(entry.name, first=True), variant.part(entry.name))
            for part in both if entry.stack else both[1:]:
                for name, number in part.tensors.values():
                    self.outlets.setdefault(name, set()).add(number)
                for name, number in part.storages.values():
                    self.handed.setdefault(name, set()).add(number)
        for name, number in variant.kept.values():
            self.outlets.setdefault(name, set()).add(number)
        for entry in variant.order:
            tensors = variant.part(entry.name).program.tensors
            its = self.handed.setdefault(entry.name, set())
            its |= {tensors[each][0] for each in self.outlets.get(entry.name, ())}

    # -- forward ----------------------------------------------------------------------------------------------------

    def _forward(self) -> list[Segment]:
        variant, segments = self.denoising.variant, []
        for entry in variant.order:
            numbers = self.denoising.numbers(entry) if entry.stack else range(1)
            for number in numbers:
                module = f"{entry.stack}.{number}" if entry.stack else entry.module
                part = variant.part(entry.name, first=bool(entry.stack) and number == numbers.start)
                begin, node = len(self.heap.events), len(self.graph.nodes)
                self._part(part, module)
                self._ran.append(_Ran(module, node, len(self.graph.nodes)))
                segments.append(Segment(begin, len(self.heap.events), module))
        begin = len(self.heap.events)
        for each in self._cached.values():
            self.heap.release(each.storage)
        return [*segments, Segment(begin, len(self.heap.events), "")]

    def _part(self, part: Part, module: str) -> None:
        if self.grad and module and self.denoising.checkpoints(module):
            self._checkpointed(part, module)
            return
        scope = self._scope(part, module, self.graph if self.grad else None, self.heap, self._cached)
        self._bind(scope, part)
        run(scope, part.section)
        self._latest[part.name] = scope

    def _scope(
        self, part: Part, module: str, graph: Graph | None, heap: Heap, cached: dict[str, Tensor]
    ) -> Scope:
        denoising = self.denoising
        setup, lora = denoising.setup, denoising.setup.job.method.lora
        adapters = None
        if lora is not None:
            adapters = PeftAdapters(
                lora.rank,
                setup.adapters_dtype,
                lora.dropout,
                denoising.adapts_module,
                denoising.quantizes_module,
                casts=setup.code.lora_casts_input,
            )
        return Scope(
            _named(part.program, module),
            self.values,
            heap,
            graph,
            denoising.weight,
            setup.gpu,
            setup.torch,
            autocast=denoising.autocast,
            efficient=setup.job.attention == "sdpa_efficient",
            adapters=adapters,
            cached=cached,
            widening=DenoiserWidening() if denoising.widens else None,
        )

    def _bind(self, scope: Scope, part: Part) -> None:
        """What other parts made is there under the part's own numbers."""
        for number, (name, there) in part.tensors.items():
            self._put(scope, number, self._latest[name].tensor(there))
        for number, (name, there) in part.storages.items():
            known = self._latest[name].storages.get(there)
            if known is not None:
                scope.storages[number] = known

    @staticmethod
    def _put(scope: Scope, number: int, tensor: Tensor) -> None:
        scope.tensors[number] = tensor
        scope.storages[scope.program.tensors[number][0]] = tensor.storage
        if scope.widening is not None and tensor.dtype == "fp32" != scope.program.tensors[number][3]:
            scope.widening.wide.add(number)

    def _checkpointed(self, part: Part, module: str) -> None:
        came = [self._latest[name].tensor(there) for name, there in part.tensors.values()]
        dry = self._what(part, module, came)
        scope = self._scope(part, module, None, self.heap, self._cached)
        self._bind(scope, part)
        held = list({id(each.storage): each.storage for each in came}.values())
        for storage in held:
            storage.refs += 1
        run(scope, part.section)
        self._latest[part.name] = scope
        numbers = [each for each in sorted(self.outlets.get(part.name, ())) if each in dry.wanted]
        if not numbers:
            for storage in held:
                self.heap.release(storage)
            return
        node = self.graph.add("checkpoint", came, [scope.tensor(each) for each in numbers])
        node.saved = held
        node.back = _Recompute(self, part, module, came, numbers, dry.last_save).back

    def _what(self, part: Part, module: str, came: Sequence[Tensor]) -> _Dry:
        key = (id(part), tuple(each.requires for each in came))
        known = self._dry.get(key)
        if known is None:
            heap = Heap()
            graph = Graph(heap)
            scope = self._scope(part, module, graph, heap, {})
            for number, each in zip(part.tensors, came, strict=True):
                copy = Tensor(Storage(-1), each.shape, each.strides, each.dtype)
                self._put(scope, number, copy)
                if each.requires:
                    graph.add("entry", [], [copy])
            run(scope, part.section)
            wanted = frozenset(number for number, each in scope.tensors.items() if each.requires)
            known = self._dry[key] = _Dry(scope.last_save, wanted)
        return known

    # -- backward ---------------------------------------------------------------------------------------------------

    def _backward(self, loss: Tensor) -> list[Segment]:
        heap, graph, begin = self.heap, self.graph, len(self.heap.events)
        grad = Tensor(heap.allocate(4, "gradient of the loss"), (), (), "fp32")
        node = loss.node
        assert isinstance(node, Node)
        node.grads[loss.index] = grad
        segments = []
        for part in reversed(self._ran):
            leaves = len(graph.leaves)
            run_nodes(graph, part.first, part.last)
            grads = tuple(
                GradOf(each.tensor.storage.number, each.parameter, rounded(each.tensor.bytes))
                for each in graph.leaves[leaves:]
                if each.tensor.storage.number >= 0
            )
            segments.append(Segment(begin, len(heap.events), part.module, grads))
            begin = len(heap.events)
        return segments


def run_nodes(graph: Graph, first: int, last: int) -> None:
    """Runs nodes backward, from `last` (not included) down to `first`."""
    for each in reversed(graph.nodes[first:last]):
        if each.back is None:
            continue
        if any(got is not None for got in each.grads):
            graph.run(each)
        else:
            graph.drop_saved(each)


@dataclass
class _Recompute:
    """The backward of a checkpointed module. `came`: what came in; `numbers`: what went out and wants a gradient."""

    player: Player
    part: Part
    module: str
    came: Sequence[Tensor]
    numbers: Sequence[int]
    stop: int

    def back(self, heap: Heap, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        """Forward again until the last tensor that backward needs is there, then backward."""
        player, part = self.player, self.part
        outer = player.graph
        inner = Graph(heap, accumulates=outer.accumulates, gpu=outer.gpu, torch=outer.torch)
        inner.unpacks = True
        inner.leaves = outer.leaves
        inner._held = outer._held  # noqa: SLF001 - one AccumulateGrad for each parameter
        cached: dict[str, Tensor] = {}
        scope = player._scope(part, self.module, inner, heap, cached)  # noqa: SLF001
        category, heap.category = heap.category, Category.ACTIVATIONS
        entries = self._enter(scope, inner)
        scope.stop = self.stop
        scope.pinned |= part.linked
        run(scope, part.section)
        heap.stopped = False
        heap.category = category
        for each in cached.values():
            heap.release(each.storage)
        self._let_go(scope, heap)
        for number, (place, grad) in zip(self.numbers, enumerate(grads), strict=True):
            tensor = scope.tensor(number)
            if grad is None or not isinstance(tensor.node, Node):
                continue
            grads[place] = None
            tensor.node.grads[tensor.index] = grad
        run_nodes(inner, 0, len(inner.nodes))
        del node
        return [None if each is None else each.grads[0] for each in entries]

    def _enter(self, scope: Scope, inner: Graph) -> list[Node | None]:
        entries: list[Node | None] = []
        for number, each in zip(self.part.tensors, self.came, strict=True):
            copy = Tensor(each.storage, each.shape, each.strides, each.dtype)
            Player._put(scope, number, copy)  # noqa: SLF001
            entries.append(inner.add("entry", [], [copy]) if each.requires else None)
        return entries

    def _let_go(self, scope: Scope, heap: Heap) -> None:
        """What the module returns is nobody's when it is run again."""
        done: set[int] = set()
        for number in self.player.handed.get(self.part.name, ()):
            storage = scope.storages.get(number)
            if storage is None or number in self.part.linked or id(storage) in done or storage.refs <= 0:
                continue
            done.add(id(storage))
            heap.release(storage)


_NAMED: dict[tuple[int, str], Program] = {}


def _named(program: Program, module: str) -> Program:
    """The program with whole names of parameters."""
    if not module:
        return program
    known = _NAMED.get((id(program), module))
    if known is None:
        storages = [
            [each[0], each[1], f"{module}.{each[2]}"] if each[0] in ("parameter", "buffer") else each
            for each in program.storages
        ]
        known = _NAMED[id(program), module] = Program(
            storages, program.tensors, program.sections, program.kept
        )
    return known
