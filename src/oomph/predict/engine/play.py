"""Runs a section of a program on a heap, with or without autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.memory.categories import Category
from oomph.predict.engine import int8
from oomph.predict.engine.compiled import Partition
from oomph.predict.engine.context_parallel import goes_round, ring_of
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Shape, Storage, Tensor, contiguous, numel
from oomph.predict.engine.program import Values
from oomph.predict.engine.rules import RULES
from oomph.predict.engine.rules.base import Call
from oomph.predict.engine.rules.copies import copied_into
from oomph.predict.engine.staging import staged, stages_again
from oomph.predict.programs.load import Program, Section

#: Operators through which nothing trains: comparisons, factories, index arithmetic.
_FLASH = "aten._scaled_dot_product_flash_attention"
_EFFICIENT = "aten._scaled_dot_product_efficient_attention"
_NAMES = """
arange ones zeros full empty ones_like zeros_like full_like empty_like new_empty eq ne lt le gt ge logical_and
logical_or
logical_not bitwise_and bitwise_or bitwise_not any all argmax detach cumsum tril triu new_ones new_zeros new_full
scalar_tensor sort floor_divide remainder isin _local_scalar_dense nonzero fill_ zero_ copy_ bernoulli_
lift_fresh scatter_ histc floor ceil sign
"""
_NO_GRADIENT = frozenset(_NAMES.split())


@dataclass(frozen=True)
class Weight:
    """What a parameter is in this job. `stored`: dtype of what is resident, `trainable`, `quantized`: its values are
    made for each product (`dequantized` buffers of the compute dtype at once). `wide`: it is resident in fp32 although
    the recording's is not. `int8`: it is LLM.int8()'s, beside a model of bf16 or fp16 ("": it is not); `outliers`: some
    columns are multiplied apart (int8.py)."""

    trainable: bool = True
    quantized: bool = False
    dequantized: int = 1
    adapter: bool = False
    wide: bool = False
    int8: str = ""
    outliers: bool = False


class Weights(Protocol):
    """Looks parameters up by name, as the section names them."""

    def __call__(self, name: str) -> Weight: ...


class Adapters(Protocol):
    """Puts adapters beside the products that they adapt."""

    def see(
        self, scope: Scope, packet: str, weight: str | None, inputs: Sequence[Tensor | None], result: int
    ) -> None:
        """An operator has run; `weight` is the parameter that it multiplied by."""
        ...

    def comes_from(self, made: Tensor, source: Tensor) -> None:
        """`made` is a cast of `source`, which is what the adapted layer was given."""
        ...


@dataclass
class Scope:
    """What is visible to a section: tensors and storages of the variant by number. One scope per played copy of a
    section; `outer` tensors belong to sections that ran before and are never freed here."""

    program: Program
    values: Values
    heap: Heap
    graph: Graph | None
    weights: Weights
    gpu: Gpu | None = None
    torch: tuple[int, int] = (2, 13)
    autocast: bool = False
    #: scaled_dot_product_attention is held to its memory-efficient kernel.
    efficient: bool = False
    adapters: Adapters | None = None
    tensors: dict[int, Tensor] = field(default_factory=dict)
    storages: dict[int, Storage] = field(default_factory=dict)
    #: Weights that autocast has cast and keeps: parameter to tensor.
    cached: dict[str, Tensor] = field(default_factory=dict)
    #: torch.compile's choice of what exists (compiled.py).
    partition: Partition | None = None
    #: A checkpoint policy: which operators' results are kept (true) although the section is recomputed, and which of
    #: them backward reads (None: not asked); the storages that forward kept, or that a recomputation is given.
    policy: Callable[[str], bool] | None = None
    wanted: frozenset[int] | None = None
    kept: list[Storage] = field(default_factory=list)
    given: list[Storage] = field(default_factory=list)
    #: What the model returns, where the loss is its caller's; and the events and blocks up to then.
    returns: frozenset[int] = frozenset()
    returned: tuple[int, int] = (0, 0)
    returned_nodes: int = 0
    #: Inputs of quantised layers are attributes of their node, and live as long as the graph (bitsandbytes to 0.42).
    keeps_inputs: bool = False
    attributes: list[Storage] = field(default_factory=list)
    #: The graph of a forward that is recomputed keeps attributes all the same: it is there, its saved tensors are not.
    keeps_attributes: bool = False
    #: Called before each operator; true where it has done the operator's work (losses.py).
    instead: Any = None
    #: What is fp32 although it was recorded in less: 4-bit layers under autocast (widening.py).
    widening: Any = None
    #: Tensors that keep their source's dtype; and the name of the output layer's weight.
    low: set[int] = field(default_factory=set)
    head: str = ""
    #: Casts of frozen weights, which live as long as their product takes.
    passing: dict[str, Storage] = field(default_factory=dict)
    #: Tensors that are made to want a gradient although nothing that they are made of does; the graph holds them.
    leaves: frozenset[int] = frozenset()
    #: Storages whose drop by Python is left to somebody else.
    pinned: set[int] = field(default_factory=set)
    #: The item with the last tensor that is saved; and where a recomputation ends early (-1: it does not).
    last_save: int = -1
    stop: int = -1
    #: The same operator saves results of its own, so that it runs before the recomputation ends.
    saves_results: bool = False
    #: Operators that adapters added so far; the one that saved the last tensor, and where a recomputation ends within
    #: them (-1: it does not).
    added: int = 0
    last_added: int = -1
    stop_added: int = -1
    #: Which storage of the program each one is.
    ids: dict[int, int] = field(default_factory=dict)
    #: Ranks among which attention goes round (context parallelism).
    ring: int = 1

    def tensor(self, number: int) -> Tensor:
        """A tensor by number. One that no operator has made yet belongs to something outside: a parameter, an input, or
        another section; it takes nothing here."""
        found = self.tensors.get(number)
        if found is None:
            found = self._outer(number)
        return found

    def shape(self, number: int) -> Shape:
        """The shape of a tensor of the variant."""
        return tuple([self.values[text] for text in self.program.tensors[number][1]])

    def strides(self, number: int) -> Shape:
        """Its strides."""
        strides = self.program.tensors[number][2]
        return (
            contiguous(self.shape(number))
            if strides is None
            else tuple([self.values[text] for text in strides])
        )

    def _outer(self, number: int) -> Tensor:
        storage_number, _, _, dtype = self.program.tensors[number]
        described = self.program.storages[storage_number]
        storage = self.storages.get(storage_number)
        if storage is None:
            storage = self.storages[storage_number] = Storage(-1, f"outer:{storage_number}")
        tensor = Tensor(storage, self.shape(number), self.strides(number), dtype)
        if described[0] == "parameter":
            tensor.parameter = described[2]
            tensor.requires = self.graph is not None and self.weights(described[2]).trainable
        self.tensors[number] = tensor
        return tensor


def run(scope: Scope, section: Section) -> None:
    """Plays the items in order. Raises UsageError for an operator that has no rule and would need one."""
    inlet = -1 if section.inlet is None else scope.program.tensors[section.inlet][0]
    late: list[int] = []
    for number, item in enumerate(section.items):
        if number == scope.stop and scope.stop_added < 0:
            if scope.saves_results:
                _runs_last(scope, item[3])
            scope.heap.stopped = True
        if item[0] == "link":
            link(scope, item[1], item[2])
            continue
        if item[0] == "drop":
            if scope.partition is None or item[1] == inlet:
                drop(scope, item[1])
            continue
        if item[0] == "drop_previous":
            late.append(item[1])
            continue
        saves, added = 0 if scope.graph is None else scope.graph.saves, scope.last_added
        operate(scope, item[1], item[2], item[3])
        if scope.graph is not None and scope.graph.saves > saves:
            scope.last_save = number
            made = [scope.tensor(each).storage for each in item[3] if each is not None]
            if scope.last_added == added:
                scope.last_added = -1
            if scope.stop < 0:
                scope.saves_results = any(each in made for each in scope.graph.nodes[-1].saved)
        if not scope.returns.isdisjoint(item[3]):
            scope.returned = (len(scope.heap.events), len(scope.heap.sizes))
            scope.returned_nodes = 0 if scope.graph is None else len(scope.graph.nodes)
        if scope.partition is not None:
            _free_used(scope, scope.partition, number)
    # What the next layer would drop of this one: training keeps it for backward anyway.
    for storage in late:
        if scope.partition is None:
            drop(scope, storage)


def _runs_last(scope: Scope, results: Sequence[int | None]) -> None:
    """Makes an operator's results and lets them go: the exception that ends the recomputation comes when one of them is
    saved."""
    numbers = [each for each in results if each is not None and _has_bytes(scope, each)]
    sizes = [scope.values[str(scope.program.storages[scope.program.tensors[each][0]][1])] for each in numbers]
    for storage in [scope.heap.allocate(size) for size in sizes]:
        scope.heap.release(storage)


def link(scope: Scope, outlet: int, inlet: int) -> None:
    """What goes out of one section comes into the next, under another number."""
    tensor = scope.tensor(outlet)
    if scope.widening is not None and outlet in scope.widening.wide:
        scope.widening.wide.add(inlet)
    scope.tensors[inlet] = tensor
    scope.storages[scope.program.tensors[inlet][0]] = tensor.storage


def _free_used(scope: Scope, partition: Partition, item: int) -> None:
    """Compiled code frees a tensor after the last kernel that reads it."""
    for number in partition.ends.get(item, ()):
        storage = scope.storages.get(number)
        # What autocast has cast is freed with its last holder, as its cache is (pinned).
        if storage is not None and number not in scope.pinned:
            scope.heap.release(storage)


def apply(
    scope: Scope,
    packet: str,
    inputs: Sequence[Tensor | None],
    shape: Shape,
    dtype: str,
    *,
    extra: Sequence[tuple[Shape, str]] = (),
) -> Tensor:
    """An operator that is in no program: a new dense result, its node, and `extra` results that only the node holds."""
    heap, graph = scope.heap, scope.graph
    heap.where = packet
    scope.added += 1
    if scope.added == scope.stop_added and not extra:
        heap.stopped = True
    made = [heap.new(shape, dtype), *(heap.new(each, kind) for each, kind in extra)]
    if graph is not None and any(each is not None and each.requires for each in inputs):
        saves = graph.saves
        _enter(scope, packet, list(inputs), (), made, graph)
        if graph.saves > saves:
            scope.last_added = scope.added
    for each in made[1:]:
        heap.release(each.storage)
    return made[0]


def look(scope: Scope, packet: str, source: Tensor, shape: Shape, strides: Shape) -> Tensor:
    """A view; Python's reference to it is the caller's to release."""
    made = scope.heap.view(source, shape, strides)
    if scope.graph is not None and source.requires:
        _enter(scope, packet, [source], (), [made], scope.graph)
    made.parameter = source.parameter
    return made


def drop(scope: Scope, number: int) -> None:
    """Python's last reference to a storage ended."""
    if number in scope.pinned:
        return
    storage = scope.storages.get(number)
    if storage is not None and storage.number >= 0:
        scope.heap.release(storage)


def base_name(name: str) -> str:
    """`aten.mul.Tensor` without the overload."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "aten" else name


def operate(scope: Scope, name: str, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """One operator: what it allocates, then its node."""
    if scope.instead is not None and scope.instead(scope, name, arguments, results):
        return
    heap = scope.heap
    packet, arguments = _chosen(scope, base_name(name), arguments)
    numbers = _tensors(arguments)
    inputs = [None if number is None else scope.tensor(number) for number in numbers]
    if scope.low and not scope.low.isdisjoint(numbers):
        scope.low.update(
            each for each in results if each is not None and scope.program.tensors[each][3] == "fp32"
        )
    if (
        packet == "aten._to_copy"
        and inputs
        and inputs[0] is not None
        and _cast_weight(scope, inputs[0], results)
    ):
        return
    widening = scope.widening
    if widening is not None and widening.passes(scope, packet, numbers, results):
        return
    weight = _weight_of(packet, inputs)
    heap.where = packet
    if weight is not None and scope.weights(weight).int8:
        int8.multiply(scope, scope.weights(weight), numbers, inputs, results[0])
        if scope.adapters is not None:
            scope.adapters.see(scope, packet, weight, inputs, results[0])
        return
    narrowed = [] if widening is None else widening.before(scope, packet, numbers, inputs, results)
    held = _dequantized(scope, weight, inputs)
    copied, copied_back = staged(packet, inputs[0] if inputs else None, arguments, scope.torch)
    copy = heap.allocate(copied, "copy for a collective", Category.COMMUNICATION)
    ring = ring_of(packet, inputs, scope.ring)
    passing = [] if ring is None else ring.before(heap)
    if packet == "oomph.rope":
        _in_place(scope, inputs[0], results[0])
    keeps = scope.policy is not None and scope.policy(packet)
    if keeps and scope.given:
        _hand_back(scope, results)
    made = [_result(scope, number, inputs) for number in results if number is not None]
    if scope.graph is not None and not scope.leaves.isdisjoint(results):
        _made_leaf(scope, made[0])
    if keeps and scope.graph is None:
        for each, number in zip(made, (n for n in results if n is not None), strict=True):
            if each.storage.number >= 0 and _is_wanted(scope, number):
                each.storage.refs += 1
                scope.kept.append(each.storage)
    for storage in held:
        heap.release(storage)
    for storage in (*passing, *((copy,) if copied else ())):
        heap.release(storage)
    if scope.graph is not None and any(each is not None and each.requires for each in inputs):
        _enter(scope, packet, inputs, arguments, made, scope.graph)
        if copied_back:
            stages_again(scope.graph, copied_back)
        if ring is not None:
            goes_round(scope.graph, ring)
        if held:
            _dequantizes_again(scope.graph, [scope.heap.sizes[each.number] for each in held])
            if scope.keeps_inputs:
                _keep_input(scope, inputs[-2])
    if scope.passing:
        _used(scope, packet, inputs)
    if widening is not None:
        widening.after(scope, weight, numbers, results)
        for storage in narrowed:
            heap.release(storage)
    if scope.adapters is not None and results:
        scope.adapters.see(scope, packet, weight, inputs, results[0])


def _made_leaf(scope: Scope, leaf: Tensor) -> None:
    """`requires_grad_` of a module's output: AccumulateGrad holds the leaf as long as the graph lives."""
    leaf.requires = True
    leaf.storage.refs += 1
    scope.attributes.append(leaf.storage)


def _chosen(scope: Scope, packet: str, arguments: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The attention kernel that scaled_dot_product_attention takes, and its arguments: flash needs compute capability
    8.0, and the memory-efficient kernel takes no grouped heads (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
    Raises UsageError for what would run as ordinary operators, or not at all."""
    old = scope.gpu is not None and tuple(scope.gpu.capability) < (8, 0)
    if packet != _FLASH or not (old or scope.efficient):
        return packet, arguments
    query, key = (scope.shape(each["t"]) for each in arguments[:2])
    if query[1] != key[1]:
        name = scope.gpu.name if scope.gpu is not None else ""
        raise UsageError(
            f"unsupported: grouped attention on {name}, which has no kernel for it and runs as ordinary operators; "
            "`oomph trace` runs the training script itself."
            if old
            else "unsupported: the memory-efficient kernel takes no grouped heads, and PyTorch fails with it alone; "
            "attention sdpa or flash_attention_2 takes them."
        )
    dropout, causal = [*arguments[3:5], 0.0, False][:2]
    return _EFFICIENT, [*arguments[:3], None, True, dropout, causal]


def _in_place(scope: Scope, source: Tensor | None, result: int) -> None:
    """The result lies where the argument does, under a name of its own."""
    assert source is not None
    source.storage.refs += 1
    scope.storages[scope.program.tensors[result][0]] = source.storage


def _hand_back(scope: Scope, results: Sequence[Any]) -> None:
    """A recomputation takes what forward kept instead of running the operator again."""
    for number in results:
        if number is not None and scope.given and _has_bytes(scope, number) and _is_wanted(scope, number):
            storage = scope.program.tensors[number][0]
            scope.storages[storage] = scope.given.pop(0)
            scope.ids[id(scope.storages[storage])] = storage


def _is_wanted(scope: Scope, number: int) -> bool:
    """Whether a kept result is read by backward; without torch.compile nobody asks."""
    return scope.wanted is None or scope.program.tensors[number][0] in scope.wanted


def _has_bytes(scope: Scope, number: int) -> bool:
    kind, size = scope.program.storages[scope.program.tensors[number][0]][:2]
    return kind == "own" and scope.values[str(size)] > 0


def _tensors(arguments: Sequence[Any]) -> list[int | None]:
    """Numbers of the tensor arguments in order; lists of tensors are flattened."""
    found: list[int | None] = []
    for each in arguments:
        if isinstance(each, Mapping):
            if "t" in each:
                found.append(each["t"])
        elif isinstance(each, (list, tuple)):
            found += [inner["t"] for inner in each if isinstance(inner, Mapping) and "t" in inner]
    return found


def _result(scope: Scope, number: int, inputs: Sequence[Tensor | None]) -> Tensor:
    storage_number, _, _, dtype = scope.program.tensors[number]
    known = scope.storages.get(storage_number)
    if known is None or (known.refs <= 0 and known.number >= 0):
        kind, size = scope.program.storages[storage_number][:2]
        size_bytes = scope.values[str(size)] if kind == "own" else 0
        if number in scope.low:
            size_bytes //= 2
        if scope.widening is not None and number in scope.widening.wide:
            size_bytes *= 2
        if scope.partition is not None and storage_number not in scope.partition.exists:
            size_bytes = 0
        known = scope.heap.allocate(size_bytes)
        scope.storages[storage_number] = known
        scope.ids[id(known)] = storage_number
    if number in scope.low:
        dtype = "bf16"
    if scope.widening is not None and number in scope.widening.wide:
        dtype = "fp32"
    tensor = Tensor(known, scope.shape(number), scope.strides(number), dtype)
    source = next((each for each in inputs if each is not None and each.storage is known), None)
    if (source is not None and not scope.graph and source.parameter) or (
        source is not None and source.parameter
    ):
        tensor.parameter = source.parameter
    scope.tensors[number] = tensor
    return tensor


def _enter(
    scope: Scope,
    packet: str,
    inputs: list[Tensor | None],
    arguments: Sequence[Any],
    made: list[Tensor],
    graph: Graph,
) -> None:
    if packet == "aten.copy_" and inputs[1] is not None and inputs[1].requires:
        copied_into(graph, _base_of(scope, made[0]), made[0], inputs[1])
        return
    if packet.removeprefix("aten.") in _NO_GRADIENT or not made:
        return
    if made[0].dtype in ("bool", "int64", "int32", "uint8"):
        return
    rule = RULES.get(packet)
    if rule is None:
        raise UsageError(
            f"unsupported: the operator {packet} has no derivative rule here; `oomph trace` runs the script itself."
        )
    rule(Call(packet, inputs, arguments, made, graph, scope.gpu, scope.torch))


def _base_of(scope: Scope, part: Tensor) -> Tensor:
    """The first tensor on the storage of a view."""
    return next(each for each in scope.tensors.values() if each.storage is part.storage)


def _cast_weight(scope: Scope, source: Tensor, results: Sequence[Any]) -> bool:
    """A weight that autocast casts: once, where it trains and the cache is on; a quantised one not at all."""
    if not source.parameter or source.node is not None:
        return False
    weight = scope.weights(source.parameter)
    number = results[0]
    if weight.quantized:
        storage_number, _, _, dtype = scope.program.tensors[number]
        scope.storages[storage_number] = Storage(-1, "quantized")
        tensor = Tensor(scope.storages[storage_number], scope.shape(number), scope.strides(number), dtype)
        tensor.parameter = source.parameter
        scope.tensors[number] = tensor
        return True
    if not scope.autocast:
        return False
    storage_number = scope.program.tensors[number][0]
    scope.pinned.add(storage_number)
    known = scope.cached.get(source.parameter)
    if known is not None:
        scope.tensors[number] = known
        scope.storages[storage_number] = known.storage
        return True
    made = _result(scope, number, [])
    if scope.graph is not None and source.requires:
        RULES["aten._to_copy"](Call("aten._to_copy", [source], [], [made], scope.graph))
    made.parameter = source.parameter
    if made.storage.number >= 0:
        scope.heap.labels[made.storage.number] = (Category.PARAMETERS, "weights cast by autocast")
    if weight.trainable:
        scope.cached[source.parameter] = made
    else:
        scope.passing[source.parameter] = made.storage
    return True


def _used(scope: Scope, packet: str, inputs: Sequence[Tensor | None]) -> None:
    """A cast that autocast does not keep goes once its product is there."""
    if packet in ("aten.t", "aten.view", "aten.transpose"):
        return
    for each in inputs:
        if each is not None and each.parameter in scope.passing:
            scope.heap.release(scope.passing.pop(each.parameter))


def _weight_of(packet: str, inputs: Sequence[Tensor | None]) -> str | None:
    """The parameter that a matrix product multiplies by."""
    if packet in ("aten.mm", "aten.addmm") and inputs[-1] is not None and inputs[-1].parameter:
        return inputs[-1].parameter
    return None


def _keep_input(scope: Scope, source: Tensor | None) -> None:
    if source is not None and source.requires and source.storage.number >= 0:
        if source.storage not in scope.attributes:
            source.storage.refs += 1
            scope.attributes.append(source.storage)


def _dequantizes_again(graph: Graph, sizes: Sequence[int]) -> None:
    """The product's backward makes the weight's values once more."""
    node = graph.nodes[-1]
    back = node.back
    assert back is not None

    def again(heap: Heap, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        held = [heap.allocate(size, "dequantised weight", Category.TEMPORARIES) for size in sizes]
        found = back(heap, node, grads)
        for storage in held:
            heap.release(storage)
        return found

    node.back = again


def _dequantized(scope: Scope, weight: str | None, inputs: Sequence[Tensor | None]) -> list[Storage]:
    if weight is None:
        return []
    described = scope.weights(weight)
    matrix = inputs[-1]
    if not described.quantized or matrix is None:
        return []
    size = numel(matrix.shape) * 2
    return [
        scope.heap.allocate(size, "dequantised weight", Category.TEMPORARIES)
        for _ in range(described.dequantized)
    ]
