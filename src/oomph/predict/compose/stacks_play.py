"""Plays a model with several stacks as a whole: forward and backward on one heap, whose log is cut where units begin
and end.

A recomputed layer runs without a graph in forward and is one node; its backward runs it again with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.memory.categories import Category
from oomph.predict.compose.adapting import adapters_for
from oomph.predict.compose.stacks import Stacks
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Storage, Tensor
from oomph.predict.engine.play import apply, drop, run
from oomph.predict.engine.program import Values
from oomph.predict.engine.scope import Scope, Weight
from oomph.predict.engine.whole import LEAF, WholeGraph
from oomph.predict.engine.widening import Widening
from oomph.predict.programs.load import Program, Section
from oomph.predict.programs.stacks import Part

_FLOATS = frozenset(("fp32", "bf16", "fp16", "fp64"))


@dataclass(frozen=True)
class Way:
    """How the model is played. grad: with autograd. accumulates: gradients exist and new ones are added to them.
    recomputed: layers of stacks that are (as (stack, layer)); early: a recomputation ends at the last tensor that is
    saved. leaf: tokens' embeddings are made to want a gradient. keeps: the caller holds what the model returned."""

    grad: bool = True
    accumulates: bool = False
    recomputed: frozenset[tuple[str, int]] = frozenset()
    early: bool = True
    leaf: bool = False
    keeps: bool = True


@dataclass(frozen=True)
class Cut:
    """Where something begins in the log: an event, the unit, and words for people."""

    event: int
    unit: int
    where: str


@dataclass(frozen=True)
class Arrival:
    """A parameter's gradient: the event before which it is there, the block, the parameter, bytes."""

    event: int
    number: int
    parameter: str
    bytes: int


@dataclass
class Played:
    """A log: `forward` and `backward` are its cuts, `end` the event where forward ends. `kept`: blocks that the caller
    holds; `attributes`: those that live as long as the graph. `inputs`: bytes of the batch."""

    heap: Heap
    forward: list[Cut] = field(default_factory=list)
    backward: list[Cut] = field(default_factory=list)
    end: int = 0
    kept: list[int] = field(default_factory=list)
    attributes: list[int] = field(default_factory=list)
    grads: list[Arrival] = field(default_factory=list)
    inputs: int = 0


def play(stacks: Stacks, way: Way) -> Played:
    """Forward and, with autograd, backward."""
    player = _Player(stacks, way)
    player.forward()
    if player.graph is not None:
        player.backward(player.graph)
    return player.played


@dataclass(frozen=True)
class _Dry:
    """What a recomputed layer's graph would be: which results want gradients, how often each parameter is used (and
    whether its name is within the layer), where its recomputation ends."""

    exports: tuple[int, ...]
    uses: tuple[tuple[bool, str, int], ...]
    stop: int
    saves_results: bool


class _Player:
    def __init__(self, stacks: Stacks, way: Way) -> None:
        self.stacks = stacks
        self.setup = stacks.setup
        self.way = way
        self.heap = Heap()
        self.graph = self._new_graph(self.heap) if way.grad else None
        self.played = Played(self.heap)
        self.values = Values(stacks.dims)
        self.variant = stacks.variant
        self.cached: dict[str, Tensor] = {}
        self.glue: dict[str, Scope] = {}
        self.layers: dict[str, list[Scope]] = {}
        self.root: Tensor | None = None
        self._dry: dict[object, _Dry] = {}

    def _new_graph(self, heap: Heap, outer: WholeGraph | None = None) -> WholeGraph:
        return WholeGraph(
            heap,
            accumulates=self.way.accumulates,
            gpu=self.setup.gpu,
            torch=self.setup.torch,
            outer=outer,
        )

    # -- forward ---------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        """All parts in order; then the caller takes the loss."""
        order = self.variant.order
        for place, name in enumerate(order):
            if name in self.variant.stacks:
                self._stack(name)
            else:
                last = place == len(order) - 1
                self._enter(
                    0, "embeddings" if not place else "loss and output layer" if last else "between stacks"
                )
                self._glue(name, self.variant.part(name))
        for cast in self.cached.values():
            self.heap.release(cast.storage)
        self._return()
        self.played.end = len(self.heap.events)
        self.played.inputs = self._inputs()

    def _enter(self, unit: int, where: str) -> None:
        self.played.forward.append(Cut(len(self.heap.events), unit, where))
        if self.graph is not None:
            self.graph.unit = unit

    def _stack(self, name: str) -> None:
        self.layers[name] = []
        for layer in range(self.stacks.depth(name)):
            unit = 0 if self.stacks.merged else self.stacks.unit(name, layer)
            self._enter(unit, f"{name} {layer}")
            part = self.variant.layer(name, layer, self.stacks.depth(name))
            if (name, layer) in self.way.recomputed and self.graph is not None:
                self._recomputed(name, layer, part, self.graph)
            else:
                scope = self._scope(part, f"{name}.{layer}.", self.heap, self.graph, self.cached)
                self._link(scope, part, layer)
                self.layers[name].append(scope)
                run(scope, part.section)

    def _glue(self, name: str, part: Part) -> None:
        """Outside of layers: a drop of what every layer of a stack holds is one for each."""
        scope = self._scope(part, "", self.heap, self.graph, self.cached)
        self._link(scope, part, 0)
        self.glue[name] = scope
        if self.way.leaf and self.graph is not None:
            scope.leaves = self._leaves(scope, part)
        each = {at: link for at, link in part.storages.items() if "/each" in link[0]}
        begin, items = 0, part.section.items
        for at, item in enumerate(items):
            if item[0] == "drop" and item[1] in each:
                run(scope, Section(items[begin:at], None, None))
                link, number = each[item[1]]
                stack, _, which = link.rpartition("/")
                layers = self.layers[stack]
                left = int(which.rpartition(" ")[2]) if " " in which else 0
                for layer in layers[2 : len(layers) - left]:
                    drop(layer, number)
                begin = at + 1
        run(scope, Section(items[begin:], None, None))
        self.played.attributes += [each.number for each in scope.attributes if each.number >= 0]

    def _leaves(self, scope: Scope, part: Part) -> frozenset[int]:
        """Results of the embeddings of tokens and of patches, which do not train (modeling_utils.py,
        enable_input_require_grads: every model within the model has a hook on its own)."""
        found = set()
        for item in part.section.items:
            if item[0] != "op" or not item[1].startswith(("aten.embedding.", "aten.convolution.")):
                continue
            weight = item[2][0 if item[1].startswith("aten.embedding.") else 1]["t"]
            storage = scope.program.storages[scope.program.tensors[weight][0]]
            embeds = storage[0] == "parameter" and self.stacks.embeds(storage[2])
            if embeds and not self.stacks.weight(storage[2]).trainable:
                found.add(item[3][0])
        return frozenset(found)

    def _return(self) -> None:
        """The model returned: its outputs are cast where the caller's wrapper does, and held by the caller or not."""
        casts: list[Tensor] = []
        held: list[Storage] = []
        made: list[Tensor] = []
        for name, link in self.variant.kept.items():
            scope, number = self._meant(link, 0)
            tensor = scope.tensor(number)
            if name == "loss":
                self.root = tensor
                continue
            made.append(tensor)
            if self.setup.code.outputs_to_fp32 and tensor.dtype in ("bf16", "fp16"):
                casts.append(apply(scope, "aten._to_copy", [tensor], tensor.shape, "fp32"))
            if tensor.storage.number >= 0 and tensor.storage not in held:
                held.append(tensor.storage)
        if self.setup.code.outputs_to_fp32:
            for each in held:
                self.heap.release(each)
            held = [each.storage for each in casts]
        if self.way.keeps and self.graph is not None:
            if self.root is not None:
                self.graph.strand(made, self.root)
            late = [storage for node in self.graph.stranded for storage in node.saved if storage.number >= 0]
            self.played.kept = list(dict.fromkeys(each.number for each in (*held, *late)))
        else:
            for each in held:
                self.heap.release(each)

    def _inputs(self) -> int:
        """Bytes of the batch."""
        names: dict[str, int] = {}
        scopes = [*self.glue.values(), *(each for found in self.layers.values() for each in found)]
        for scope in scopes:
            for each in scope.program.storages:
                if each[0] == "input":
                    names[each[2]] = self.values[str(each[1])]
        return sum(-(-size // 512) * 512 for size in names.values())

    # -- scopes ----------------------------------------------------------------------------------------------------

    def _scope(
        self, part: Part, prefix: str, heap: Heap, graph: WholeGraph | None, cached: dict[str, Tensor]
    ) -> Scope:
        program = part.program
        storages = [
            [each[0], each[1], self._whole(prefix, each[2])] if each[0] in ("parameter", "buffer") else each
            for each in program.storages
        ]
        adapters = adapters_for(self.setup)
        if adapters is not None:
            adapters.adapts, adapters.quantized = self.stacks.adapts, self.stacks.quantizes
        return Scope(
            Program(storages, program.tensors, program.sections, {}),
            self.values,
            heap,
            graph,
            self._weight,
            self.setup.gpu,
            self.setup.torch,
            autocast=self.setup.precision.endswith("autocast"),
            adapters=adapters,
            cached=cached,
            widening=Widening() if self.setup.widens else None,
            keeps_inputs=self.setup.code.quantized_input_kept
            and self.setup.job.method.quantization is not None,
        )

    def _whole(self, prefix: str, name: str) -> str:
        """A parameter's whole name, by which it is one wherever it is used."""
        return self.stacks.name(prefix + name)

    def _weight(self, name: str) -> Weight:
        return self.stacks.weight(name)

    def _meant(self, link: tuple[str, int], layer: int) -> tuple[Scope, int]:
        """The scope that a link of a layer means, and the number there."""
        section, number = link
        stack, _, which = section.rpartition("/")
        if not stack:
            return self.glue[section], number
        found = self.layers[stack]
        at = {"first": 0, "second": 1, "last": -1, "last but one": -2, "prev": layer - 1}[which]
        return found[at], number

    def _link(self, scope: Scope, part: Part, layer: int) -> None:
        """What others made is known under numbers of this part."""
        for at, link in part.storages.items():
            if "/each" in link[0]:
                continue
            home, number = self._meant(link, layer)
            storage = home.storages.get(number)
            scope.storages[at] = Storage(-1, "outer") if storage is None else storage
            if number in home.pinned:
                scope.pinned.add(at)
        for at, link in part.tensors.items():
            home, number = self._meant(link, layer)
            tensor = home.tensor(number)
            scope.tensors[at] = tensor
            scope.storages[part.program.tensors[at][0]] = tensor.storage
            widen(scope, at, tensor)

    # -- layers that are recomputed -----------------------------------------------------------------------------------

    def _recomputed(self, name: str, layer: int, part: Part, graph: WholeGraph) -> None:
        prefix = f"{name}.{layer}."
        # What autocast casts it keeps, whoever holds the graph, until forward is over.
        scope = self._scope(part, prefix, self.heap, None, self.cached)
        self._link(scope, part, layer)
        taken = {at: scope.tensors[at] for at in part.tensors}
        dry = self._dried(part, prefix, taken)
        self.layers[name].append(scope)
        for each in taken.values():
            each.storage.refs += 1
        run(scope, part.section)
        if not dry.exports:
            for each in taken.values():
                self.heap.release(each.storage)
            return
        wanting = [at for at, tensor in taken.items() if tensor.requires]
        node = graph.add(
            "checkpoint", [taken[at] for at in wanting], [scope.tensor(at) for at in dry.exports]
        )
        node.saved = [each.storage for each in taken.values()]
        graph.uses.update({prefix * inside + each: count for inside, each, count in dry.uses})
        node.back = _Again(self, part, prefix, taken, dry, graph).back

    def _dried(self, part: Part, prefix: str, taken: Mapping[int, Tensor]) -> _Dry:
        trains = tuple(
            self.stacks.weight(self._whole(prefix, each[2])).trainable
            for each in part.program.storages
            if each[0] == "parameter"
        )
        key = (part.name, tuple(each.requires for each in taken.values()), trains)
        known = self._dry.get(key)
        if known is None:
            heap = Heap()
            inner = self._new_graph(heap)
            scope = self._scope(part, prefix, heap, inner, {})
            # Nothing of this is kept: other storages stand for those that are there.
            others = {at: _stand_in(each) for at, each in taken.items()}
            proxies(scope, part, others, inner)
            run(scope, part.section)
            known = self._dry[key] = _Dry(
                tuple(
                    at
                    for at in part.exports
                    if scope.tensor(at).requires and scope.tensor(at).dtype in _FLOATS
                ),
                tuple(
                    (name.startswith(prefix), name.removeprefix(prefix), count)
                    for name, count in inner.uses.items()
                ),
                scope.last_save,
                scope.saves_results,
            )
        return known

    # -- backward ----------------------------------------------------------------------------------------------------

    def backward(self, graph: WholeGraph) -> None:
        """From the loss to the embeddings."""
        root, heap = self.root, self.heap
        assert root is not None
        grad = Tensor(
            heap.allocate(root.bytes, "gradient of the loss", Category.TEMPORARIES),
            root.shape,
            root.strides,
            root.dtype,
        )
        root.storage.refs -= 1
        # The node of the loss is outside of layers.
        graph.unit = 0
        if root.requires:
            graph.backward(root, grad)
            graph.finish()
        self.played.backward = [Cut(self.played.end, 0, "loss and output layer")]
        names = self._places()
        self.played.backward += [Cut(each.event, each.unit, names[each.unit]) for each in graph.marks]
        self.played.grads = [
            Arrival(event, each.tensor.storage.number, each.parameter, each.tensor.bytes)
            for event, each in zip(graph.arrived, graph.leaves, strict=True)
            if not each.parameter.startswith(LEAF)
        ]
        self.played.attributes += [
            each.tensor.storage.number
            for each in graph.leaves
            if each.parameter.startswith(LEAF) and each.tensor.storage.number >= 0
        ]

    def _places(self) -> dict[int, str]:
        found = {0: "outside of layers"}
        for each in self.played.forward:
            if each.unit:
                found[each.unit] = each.where
        return found


def _stand_in(tensor: Tensor) -> Tensor:
    made = Tensor(Storage(-1, "outer"), tensor.shape, tensor.strides, tensor.dtype)
    made.requires = tensor.requires
    return made


def widen(scope: Scope, number: int, tensor: Tensor) -> None:
    """What came in is fp32 although the recording's is not (engine/widening.py)."""
    if scope.widening is not None and tensor.dtype == "fp32" != scope.program.tensors[number][3]:
        scope.widening.wide.add(number)


def proxies(scope: Scope, part: Part, taken: Mapping[int, Tensor], graph: WholeGraph) -> list[Node]:
    """What the layer was called with, as leaves of a graph of its own."""
    entries = []
    for at, source in taken.items():
        tensor = Tensor(source.storage, source.shape, source.strides, source.dtype)
        widen(scope, at, source)
        if source.requires:
            entries.append(graph.add("entry", [], [tensor]))
        scope.tensors[at] = tensor
        scope.storages[part.program.tensors[at][0]] = source.storage
        scope.pinned.add(part.program.tensors[at][0])
    for at in part.storages:
        scope.storages.setdefault(at, Storage(-1, "outer"))
        scope.pinned.add(at)
    return entries


@dataclass(frozen=True)
class _Again:
    """The backward of a recomputed layer: it runs again, then its own backward."""

    player: _Player
    part: Part
    prefix: str
    taken: Mapping[int, Tensor]
    dry: _Dry
    outer: WholeGraph

    def back(self, heap: Heap, _node: Node, grads: Grads) -> list[Tensor | None]:
        player, early = self.player, self.player.way.early
        inner = player._new_graph(heap, self.outer)  # noqa: SLF001 - the player's other half
        inner.unit = self.outer.unit
        inner.unpacks = early
        scope = player._scope(self.part, self.prefix, heap, inner, {})  # noqa: SLF001
        category, heap.category = heap.category, Category.ACTIVATIONS
        entries = proxies(scope, self.part, self.taken, inner)
        if early:
            scope.stop, scope.saves_results = self.dry.stop, self.dry.saves_results
        run(scope, self.part.section)
        heap.stopped = False
        self._let_go(heap, scope)
        heap.category = category
        for at, number in enumerate(self.dry.exports):
            grad, grads[at] = grads[at], None
            made = scope.tensor(number)
            if grad is not None and isinstance(made.node, Node):
                made.node.grads[made.index] = grad
        inner.from_roots(entries)
        return [entry.grads[0] for entry in entries]

    def _let_go(self, heap: Heap, scope: Scope) -> None:
        """What it returns a second time nobody takes; autocast forgets its casts."""
        for cast in scope.cached.values():
            heap.release(cast.storage)
        done: list[Storage] = []
        for number in self.part.exports:
            storage = scope.tensor(number).storage
            if storage.number >= 0 and storage not in done and storage.refs > 0:
                done.append(storage)
        taken = {id(each.storage) for each in self.taken.values()}
        for storage in done:
            if id(storage) not in taken:
                heap.release(storage)
