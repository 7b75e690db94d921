"""Templates of a model's parts for one setup: made once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from oomph.errors import UsageError
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.adapters import PeftAdapters
from oomph.predict.engine.graph import Graph
from oomph.predict.engine.heap import Heap
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.play import Scope, run
from oomph.predict.engine.program import Values
from oomph.predict.programs.load import Section
from oomph.predict.sink import Template

_KEPT = 512


@dataclass(frozen=True)
class Mode:
    """How a piece is played. grad: with autograd. requires: the hidden state wants a gradient. accumulates: gradients
    exist and new ones are added to them."""

    grad: bool = True
    requires: bool = True
    pinned: bool = False
    reentrant: bool = False
    accumulates: bool = False
    hold_grad: bool = False
    early_stop: bool = False


def _scope(setup: Setup, mode: Mode) -> Scope:
    heap = Heap()
    graph = Graph(heap, accumulates=mode.accumulates) if mode.grad else None
    adapters = None
    lora = setup.job.method.lora
    if lora is not None and setup.code.lora == "peft":
        adapters = PeftAdapters(
            lora.rank,
            lora.dtype if lora.dtype in ("fp32", "bf16", "fp16") else "fp32",
            lora.dropout,
            setup.adapts_module,
            setup.quantizes_module,
            casts=setup.code.lora_casts_input,
        )
    return Scope(
        setup.program,
        Values(setup.dims),
        heap,
        graph,
        setup.weight,
        setup.gpu,
        setup.torch,
        autocast=setup.precision.endswith("autocast"),
        adapters=adapters,
    )


def section(setup: Setup, name: str) -> Section:
    """A section of the variant; the loss is that of the code, or the recorded one."""
    found = setup.program.sections.get(name)
    if found is None:
        raise UsageError(f"unsupported: the program of {setup.file.family} has no section {name}.")
    return found


@lru_cache(maxsize=4096)
def _block(_key: tuple[object, ...], setup: _Keyed, mode: Mode) -> Piece:
    scope = _scope(setup.setup, mode)
    if mode.early_stop:
        scope.stop = _last_save(setup.setup, mode)
    return build(
        scope,
        section(setup.setup, "block"),
        requires=mode.requires,
        pinned=mode.pinned,
        reentrant=mode.reentrant,
        hold_grad=mode.hold_grad,
    )


def _last_save(setup: Setup, mode: Mode) -> int:
    """Where a recomputation that is not reentrant ends: at the operator that saves the last tensor, before it runs
    (torch/utils/checkpoint.py, _StopRecomputationError)."""
    scope = _scope(setup, mode)
    build(scope, section(setup, "block"), requires=mode.requires, pinned=True)
    return scope.last_save


@dataclass(frozen=True)
class _Keyed:
    """A setup that compares equal to every other, so that `key` alone decides."""

    setup: Setup

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed)


def key_of(setup: Setup) -> tuple[object, ...]:
    """What decides how a piece is played: not the number of ranks, the optimizer or the accumulation."""
    job = setup.job
    return (
        setup.code,
        job.model,
        job.method,
        job.precision,
        job.batch.micro,
        job.batch.sequence,
        job.parallel.tensor,
        job.parallel.context,
        setup.sharded_in_compute,
        job.attention,
        job.loss,
        job.compile,
        setup.torch,
        None if setup.gpu is None else setup.gpu.short_name,
    )


def block(setup: Setup, mode: Mode) -> Piece:
    """One layer."""
    return _block(key_of(setup), _Keyed(setup), mode)


@lru_cache(maxsize=1024)
def _head(_key: tuple[object, ...], setup: _Keyed, mode: Mode) -> Piece:
    inner = setup.setup
    scope = _scope(inner, mode)
    after, loss = section(inner, "after"), section(inner, "loss")
    root = inner.program.kept["loss"]
    code = inner.code
    kept = [each for each in inner.program.kept.values() if each != root]
    late = code.outputs_to_fp32 and not code.cast_before_loss
    return build(
        scope,
        after,
        loss,
        requires=mode.requires,
        pinned=mode.pinned,
        root=root,
        dropped=() if code.logits_through_backward else kept,
        to_fp32=kept if late else (),
        kept=kept if code.logits_through_backward else (),
    )


def head(setup: Setup, mode: Mode) -> Piece:
    """Final norm, output layer and loss."""
    return _head(key_of(setup), _Keyed(setup), mode)


@dataclass(frozen=True, eq=False)
class Front:
    """Embedding and what all layers share. `left`: numbers of blocks that Python holds at its end beside the hidden
    state; `held`: the hidden state is held until the model's forward has returned."""

    piece: Piece
    left: tuple[int, ...]
    held: bool
    inputs: int


@lru_cache(maxsize=1024)
def _front(_key: tuple[object, ...], setup: _Keyed, mode: Mode) -> Front:
    inner = setup.setup
    scope = _scope(inner, mode)
    before = section(inner, "before")
    piece = build(scope, before, requires=False)
    variant = inner.program
    alive = [
        storage.number
        for storage in scope.storages.values()
        if storage.number >= 0 and storage.number != piece.out and _is_left(piece.forward, storage.number)
    ]
    assert before.outlet is not None
    exit_storage = variant.tensors[before.outlet][0]
    late = any(
        item[0] == "drop" and item[1] == exit_storage
        for name in ("after", "loss")
        for item in section(inner, name).items
    )
    inputs = sum(scope.values[str(each[1])] for each in variant.storages if each[0] == "input")
    return Front(piece, tuple(dict.fromkeys(alive)), late, inputs)


def _is_left(template: Template, number: int) -> bool:
    return number in template.events and ~number not in template.events


def front(setup: Setup, mode: Mode) -> Front:
    """Embedding and what all layers share."""
    return _front(key_of(setup), _Keyed(setup), mode)


def labels(template: Template) -> Mapping[int, str]:
    """Names of a template's blocks, for people who look at one."""
    return {number: name for number, (_, name) in enumerate(template.labels)}


__all__ = ["Front", "Mode", "block", "front", "head", "labels", "run", "section"]
