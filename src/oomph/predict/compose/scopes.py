"""Sections of a setup's program, and the scope in which one is played: plain, or as torch.compile has it."""

from __future__ import annotations

from dataclasses import replace

from oomph.errors import UsageError
from oomph.predict.compose.adapting import adapters_for
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.policy import selective_policy
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.compiled import HEAVY, operators, packet, partition, read_again
from oomph.predict.engine.fusions import fuse
from oomph.predict.engine.graph import Graph
from oomph.predict.engine.heap import Heap, Storage, Tensor
from oomph.predict.engine.piece import build
from oomph.predict.engine.program import Values
from oomph.predict.engine.scope import Scope, Weight, Weights
from oomph.predict.engine.widening import Widening
from oomph.predict.programs.load import Program, Section

#: Sections with kernels fused; programs live as long as the process, so their identity is a key.
_SECTIONS: dict[tuple[int, str, frozenset[str]], Section] = {}


def section(setup: Setup, name: str) -> Section:
    """A section of the variant; the loss is that of the code, or the recorded one."""
    key = (id(setup.program), name, setup.code.fusions)
    known = _SECTIONS.get(key)
    if known is None:
        known = _SECTIONS[key] = _section(setup, name)
    return known


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


def _weights(setup: Setup, frozen: frozenset[str], joined: bool) -> Weights:
    """What parameters are, where some do not train."""
    known: dict[str, Weight] = {}

    def weight(name: str) -> Weight:
        found = known.get(name)
        if found is None:
            found = setup.weight(name)
            if joined:
                found = _trained(found)
            elif name in frozen:
                found = replace(found, trainable=False)
            known[name] = found
        return found

    return weight


def _trained(weight: Weight) -> Weight:
    return weight if weight.quantized else replace(weight, trainable=True)


def scope_of(setup: Setup, mode: Mode, fused: bool = False) -> Scope:
    """An empty scope for a piece of a setup."""
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


def compiled_scope(setup: Setup, mode: Mode, its: Section, root: int | None = None) -> Scope:
    """A scope in which torch.compile has chosen what exists."""
    dry = scope_of(setup, replace(mode, grad=True, accumulates=False))
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
    scope = scope_of(setup, mode, fused=True)
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
