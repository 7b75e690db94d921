"""Templates of a model's parts for one setup: made once and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from oomph.errors import UsageError
from oomph.predict.compose.adapting import adapters_for
from oomph.predict.compose.keys import Keyed, key_of, number_of, structure_of
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.setup_chosen import recorded_loss
from oomph.predict.engine import losses
from oomph.predict.engine.compiled import HEAVY, numbers, operators, packet, partition, read_again
from oomph.predict.engine.fusions import fuse
from oomph.predict.engine.graph import Graph
from oomph.predict.engine.heap import Heap, Storage, Tensor
from oomph.predict.engine.piece import Piece, build, play_forward
from oomph.predict.engine.play import run
from oomph.predict.engine.program import Values
from oomph.predict.engine.scope import Scope, Weight, Weights
from oomph.predict.engine.sequence_parallel import SCATTER
from oomph.predict.engine.widening import Widening
from oomph.predict.frameworks.code import Code
from oomph.predict.programs.load import Program, Section
from oomph.predict.sink import Template

_KEPT_BY_POLICY = frozenset(
    ("aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_efficient_attention")
)


#: Whose loop computes the loss from what the model returned; elsewhere the model does.
_LOSS_OUTSIDE = frozenset(("litgpt", "lightning-thunder", "torchtitan", "torchtune", "minimind"))


@dataclass(frozen=True)
class Mode:
    """How a piece is played. grad: with autograd. requires: the hidden state wants a gradient. accumulates: gradients
    exist and new ones are added to them. frozen: parameters that do not train in this layer. kind: its section.
    joined: what is frozen is part of a flat parameter that trains. leaf: the tokens' embedding is made to want a
    gradient (enable_input_require_grads). wide: what comes in is fp32 although the recording's is not (widening.py).
    attributes: without autograd here, but what nodes have as attributes is kept (int8.py)."""

    grad: bool = True
    requires: bool = True
    pinned: bool = False
    reentrant: bool = False
    accumulates: bool = False
    hold_grad: bool = False
    early_stop: bool = False
    selective: bool = False
    frozen: frozenset[str] = frozenset()
    kind: str = "block"
    leaf: bool = False
    joined: bool = False
    wide: bool = False
    attributes: bool = False


def _weights(setup: Setup, frozen: frozenset[str], joined: bool) -> Weights:
    """What parameters are, where some do not train."""
    if joined:
        return lambda name: _trained(setup.weight(name))
    if not frozen:
        return setup.weight

    def weight(name: str) -> Weight:
        found = setup.weight(name)
        return replace(found, trainable=False) if name in frozen else found

    return weight


def _trained(weight: Weight) -> Weight:
    return weight if weight.quantized else replace(weight, trainable=True)


def _scope(setup: Setup, mode: Mode, fused: bool = False) -> Scope:
    heap = Heap()
    graph = None
    if mode.grad:
        graph = Graph(heap, accumulates=mode.accumulates, fused=fused, gpu=setup.gpu, torch=setup.torch)
    widening = None
    if setup.widens:
        widening = Widening()
        inlets = (section(setup, mode.kind).inlet, section(setup, "after").inlet) if mode.wide else ()
        widening.wide.update(each for each in inlets if each is not None)
    return Scope(
        setup.program,
        Values(setup.dims),
        heap,
        graph,
        _weights(setup, mode.frozen, mode.joined),
        setup.gpu,
        setup.torch,
        autocast=setup.precision.endswith("autocast"),
        efficient=setup.job.attention == "sdpa_efficient",
        adapters=adapters_for(setup),
        keeps_attributes=mode.attributes,
        keeps_inputs=setup.code.quantized_input_kept and setup.job.method.quantization is not None,
        ring=setup.ring,
        widening=widening,
    )


def section(setup: Setup, name: str) -> Section:
    """A section of the variant; the loss is that of the code, or the recorded one."""
    key = (id(setup.program), name, setup.code.fusions)
    known = _SECTIONS.get(key)
    if known is None:
        known = _SECTIONS[key] = _section(setup, name)
    return known


#: Sections with kernels fused; programs live as long as the process, so their identity is a key.
_SECTIONS: dict[tuple[int, str, frozenset[str]], Section] = {}


def _section(setup: Setup, name: str) -> Section:
    found = setup.program.sections.get(name)
    if found is None:
        raise UsageError(f"unsupported: the program of {setup.file.family} has no section {name}.")
    found = fuse(setup.program, found, setup.code.fusions)
    return _last_named(setup.program, found) if name in ("after", "loss") else found


def _last_named(program: Program, its: Section) -> Section:
    """What came out of the last layer has a number of that layer and one of `after`: a drop of the one is one of the
    other."""
    outlets = [program.sections[name].outlet for name in ("block", "full") if name in program.sections]
    inlet = program.sections["after"].inlet
    if inlet is None:
        return its
    gone = [["drop", program.tensors[each][0]] for each in outlets if each is not None]
    items = [["drop", program.tensors[inlet][0]] if item in gone else item for item in its.items]
    return Section(items, its.inlet, its.outlet)


def operators_of(setup: Setup, name: str) -> frozenset[str]:
    """The operators of a section, without their overloads."""
    return frozenset(packet(item[1]) for item in section(setup, name).items if item[0] == "op")


@lru_cache(maxsize=4096)
def _block(_key: int, setup: Keyed, mode: Mode) -> Piece:
    inner = setup.setup
    its = section(inner, mode.kind)
    scope = _compiled(inner, mode, its) if inner.compiles_layers else _scope(inner, mode)
    given: list[int] = []
    if mode.selective:
        scope.policy = selective_policy(inner.code)
        if mode.grad:
            same = Mode(frozen=mode.frozen, kind=mode.kind, joined=mode.joined)
            first = block(inner, replace(same, grad=False, pinned=True, selective=True))
            given = [first.forward.sizes[each] for each in first.policy]
    if mode.early_stop:
        scope.stop, scope.saves_results, scope.stop_added = _last_save(
            (structure_of(inner), id(inner.program)), Keyed(inner), mode
        )
        if scope.graph is not None:
            scope.graph.unpacks = True
    return build(
        scope,
        its,
        requires=mode.requires,
        pinned=mode.pinned,
        reentrant=mode.reentrant,
        hold_grad=mode.hold_grad,
        given=given,
    )


def selective_policy(code: Code) -> Callable[[str], bool]:
    """torchtitan's policy per operator: results of attention are kept, and of matrix products all but every n-th
    (torchtitan/parallelisms/parallelize_llama.py, _get_custom_policy)."""
    every, products = code.selective_every, 0

    def keeps(name: str) -> bool:
        nonlocal products
        if name == "aten.mm":
            products += 1
            return every < 2 or products % every != 0
        return (code.selective_attention and name in _KEPT_BY_POLICY) or name == SCATTER

    return keeps


def _compiled(setup: Setup, mode: Mode, its: Section, root: int | None = None) -> Scope:
    """A scope in which torch.compile has chosen what exists."""
    dry = _scope(setup, replace(mode, grad=True, accumulates=False))
    build(dry, its, requires=mode.requires, pinned=True, root=root)
    needed: dict[int, bool] = {}
    if dry.graph is not None:
        for name, storage in dry.graph.read_by:
            number = dry.ids.get(id(storage))
            if number is not None:
                needed[number] = needed.get(number, False) or name in HEAVY
    program = setup.program
    sizes = {number: dry.values[str(each[1])] for number, each in enumerate(program.storages)}
    outlets = {
        program.tensors[each][0] for each in (its.outlet, root, *program.kept.values()) if each is not None
    }
    chosen = partition(program, its, sizes, needed if mode.grad else {}, outlets)
    scope = _scope(setup, mode, fused=True)
    scope.partition = chosen
    scope.wanted = frozenset(needed)
    if mode.selective:
        keeps = selective_policy(setup.code)
        kept = {write for op in operators(program, its) if keeps(op.name) for write in op.writes}
        scope.wanted = frozenset(read_again(operators(program, its), needed, kept))

    def kept_for(tensor: Tensor) -> list[Storage]:
        number = scope.ids.get(id(tensor.storage))
        if number is None:
            return [tensor.storage]
        if number not in chosen.parts:
            return [tensor.storage]
        return [scope.storages[each] for each in chosen.parts[number] if each in scope.storages]

    if scope.graph is not None:
        scope.graph.kept_for = kept_for
    return scope


@lru_cache(maxsize=1024)
def _last_save(_key: object, setup: Keyed, mode: Mode) -> tuple[int, bool, int]:
    """Where a recomputation that is not reentrant ends: at the operator that saves the last tensor, before it runs, or
    after where that is one of its results, which the second number says (torch/utils/checkpoint.py,
    _StopRecomputationError). The third: at which operator of the adapters, where it is one of theirs, else -1."""
    inner = setup.setup
    scope = _scope(inner, mode)
    play_forward(scope, section(inner, mode.kind), requires=mode.requires)
    return scope.last_save, scope.saves_results, scope.last_added


#: For pieces that are put together elsewhere (last_position, preference).
scope_of = _scope


def block(setup: Setup, mode: Mode) -> Piece:
    """One layer."""
    return _block(number_of(setup), Keyed(setup), mode)


@lru_cache(maxsize=1024)
def _head(_key: int, setup: Keyed, mode: Mode) -> Piece:
    inner = setup.setup
    scope = _scope(inner, mode)
    code = inner.code
    after = section(inner, "after")
    if code.loss == losses.LINEAR != recorded_loss(inner.variant):
        return _linear_head(inner, scope, after, mode)
    if code.loss == losses.MEAN:
        return _mean_of_logits(scope, after, mode)
    loss = section(inner, "loss")
    root = inner.program.kept["loss"]
    kept = [each for each in inner.program.kept.values() if each != root]
    more: Section | None = loss
    if inner.compiles_loss:
        assert after.outlet is not None
        assert loss.inlet is not None
        after = Section([*after.items, ["link", after.outlet, loss.inlet], *loss.items], after.inlet, root)
        more = None
    if inner.compiles_loss or (inner.compiles_blocks and inner.code.compiled == "model"):
        scope = _compiled(inner, mode, after, root if more is None else None)
    if code.framework in _LOSS_OUTSIDE and more is not None:
        scope.returns = frozenset(kept or (each for each in (after.outlet,) if each is not None))
    if recorded_loss(inner.variant) != code.loss and not inner.compiles_loss:
        scope.instead = _instead(inner, code.loss)
    late = code.outputs_to_fp32 and not code.cast_before_loss
    return build(
        scope,
        after,
        more,
        requires=mode.requires,
        pinned=mode.pinned,
        root=root,
        dropped=() if code.logits_through_backward else kept,
        to_fp32=kept if late else (),
        kept=kept if code.logits_through_backward else (),
    )


def _instead(setup: Setup, loss: str) -> Any:
    """What runs in place of the recorded loss. Raises UsageError for a loss that is neither recorded nor composed."""
    if loss == losses.RECORDED:
        return None
    if loss == losses.FUSED:
        return losses.fused_without_autocast(section(setup, "after"), section(setup, "loss"))
    if loss == losses.LOW:
        return losses.low
    if loss == losses.PARALLEL:
        return losses.parallel
    raise UsageError(
        f"unsupported: the loss {loss} with {setup.code.label} is not modelled; `oomph trace` runs the training script "
        "itself."
    )


def _mean_of_logits(scope: Scope, after: Section, mode: Mode) -> Piece:
    """The output layer, and the mean of its result in the caller's code, which keeps the logits."""
    number = after.outlet
    assert number is not None
    return build(
        scope,
        after,
        requires=mode.requires,
        pinned=mode.pinned,
        kept=(number,),
        finish=lambda scope: losses.mean(scope, scope.tensor(number)),
    )


def _linear_head(setup: Setup, scope: Scope, after: Section, mode: Mode) -> Piece:
    """Final norm, then output layer and loss as one kernel."""
    weight = f"{setup.architecture.head}.weight"
    scope.head = weight
    norm, number, _ = losses.split_at_head(after, scope, weight)

    def finish(scope: Scope) -> Tensor:
        trains = setup.weight(weight).trainable and scope.graph is not None
        dtype = "fp32" if setup.precision.startswith("fp32") else "bf16"
        hidden = scope.tensor(number)
        loss = losses.fused_linear(scope, hidden, setup.dims["vocab"], trains, dtype)
        scope.heap.release(hidden.storage)
        return loss

    return build(scope, norm, requires=mode.requires, pinned=mode.pinned, finish=finish)


def head(setup: Setup, mode: Mode) -> Piece:
    """Final norm, output layer and loss."""
    return _head(number_of(setup), Keyed(setup), mode)


class Left(NamedTuple):
    """A block that Python holds when layers begin: its number, the program's storage, and whether the model's code
    lets go of it before the output layer."""

    block: int
    storage: int
    dropped: bool


@dataclass(frozen=True, eq=False)
class Front:
    """Embedding and what all layers share.

    left: numbers of blocks that Python holds at its end beside the hidden state. held: the hidden state is held until
    the stack of layers has returned. leaf: bytes of the embedding's own output, where the hidden state is another
    tensor.
    """

    piece: Piece
    left: tuple[Left, ...]
    held: bool
    inputs: int
    leaf: int


@lru_cache(maxsize=1024)
def _front(_key: int, setup: Keyed, mode: Mode) -> Front:
    inner = setup.setup
    scope = _scope(inner, mode)
    before = section(inner, "before")
    if mode.leaf and not mode.joined:
        scope.leaves = _leaves(inner, before)
    piece = build(scope, before, requires=False)
    variant = inner.program
    dropped = {item[1] for item in section(inner, "after").items if item[0] == "drop"}
    alive = [
        Left(storage.number, number, number in dropped)
        for number, storage in scope.storages.items()
        if storage.number >= 0
        and storage.number not in (piece.out, *piece.casts, *piece.attributes)
        and _is_left(piece, storage.number)
    ]
    assert before.outlet is not None
    exit_storage = variant.tensors[before.outlet][0]
    late = any(
        item[0] == "drop" and item[1] == exit_storage
        for name in ("after", "loss")
        for item in section(inner, name).items
    )
    inputs = sum(scope.values[str(each[1])] for each in variant.storages if each[0] == "input")
    alive = list({each.block: each for each in alive}.values())
    return Front(piece, tuple(alive), late, inputs, _leaf_bytes(scope, before, exit_storage))


def _leaves(setup: Setup, before: Section) -> frozenset[int]:
    """The output of the tokens' embedding, where what follows before the first layer saves tensors for backward."""
    names = [packet(item[1]) for item in before.items if item[0] == "op"]
    program, weight = setup.program, f"{setup.architecture.embedding}.weight"
    if setup.weight(weight).trainable or not {"aten.native_layer_norm", "aten.native_dropout"} & set(names):
        return frozenset()
    for item in before.items:
        if item[0] == "op" and packet(item[1]) == "aten.embedding":
            table = program.storages[program.tensors[item[2][0]["t"]][0]]
            if table[0] == "parameter" and table[2] == weight:
                return frozenset((item[3][0],))
    return frozenset()


def _leaf_bytes(scope: Scope, before: Section, exit_storage: int) -> int:
    """Bytes of the embedding's own output where it is scaled before the first layer; else 0."""
    for item in before.items:
        if item[0] == "op" and item[1].startswith("aten.embedding"):
            storage = scope.program.tensors[item[3][0]][0]
            return (
                0
                if storage == exit_storage or _scales_itself(scope, before, storage)
                else scope.values[str(scope.program.storages[storage][1])]
            )
    return 0


def _scales_itself(scope: Scope, before: Section, looked_up: int) -> bool:
    """Whether the embedding's module multiplies by a buffer of its own (Gemma's since transformers 5): then what it
    returns is what the first layer takes."""
    program = scope.program
    for item in before.items:
        if item[0] == "op" and item[1].startswith("aten.mul"):
            read = [program.tensors[each][0] for each in numbers(item[2])]
            if looked_up in read:
                return any(program.storages[each][0] == "buffer" for each in read)
    return False


def _is_left(piece: Piece, number: int) -> bool:
    """Whether a block outlives the piece: neither forward frees it nor what backward lets go."""
    backward = () if piece.backward is None else piece.backward.events
    return number in piece.forward.events and ~number not in (*piece.forward.events, *backward)


def front(setup: Setup, mode: Mode) -> Front:
    """Embedding and what all layers share."""
    return _front(number_of(setup), Keyed(setup), mode)


def labels(template: Template) -> Mapping[int, str]:
    """Names of a template's blocks, for people who look at one."""
    return {number: name for number, (_, name) in enumerate(template.labels)}


__all__ = ["Front", "Keyed", "Mode", "block", "front", "head", "key_of", "labels", "run", "section"]
