"""A section of a program as templates: its forward, and its backward if it has one.

Blocks are numbered through both: number 0 is the hidden state that comes in, the last of the backward's handed blocks
is the gradient of what went out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oomph.memory.categories import Category
from oomph.predict.engine.asked import Question, with_slack
from oomph.predict.engine.graph import Graph, Node
from oomph.predict.engine.heap import ITEM, Heap, Tensor, numel
from oomph.predict.engine.play import apply, link, run
from oomph.predict.engine.scope import Scope
from oomph.predict.programs.load import Section
from oomph.predict.sink import Template, rounded

#: The name of the hidden state as a leaf.
ENTRY = "<entry>"


@dataclass(frozen=True)
class PieceGrad:
    """A parameter's gradient that backward leaves: the block's number, the parameter's name within the section, bytes,
    and whether it is a view of what a product made."""

    number: int
    parameter: str
    bytes: int
    view: bool = False


@dataclass(frozen=True, eq=False)
class Piece:
    """forward: number 0 is handed in. backward: handed all numbers of forward and the gradient of what went out
    (`None` where nothing of it trains).

    out: the number of what goes on. entry_grad: the number (in backward) of the gradient of what came in, -1 where it
    wants none. grads: in the order in which they come. casts: numbers of weights that autocast cast and keeps until it
    ends; after_forward: those that nothing else frees. kept: numbers of what the caller holds for longer. policy: of
    what a checkpoint policy keeps for the recomputation. attributes: of what lives as long as the graph, that is, as
    the loss or the logits of the caller. model: what runs before `forward`, until the model returned, where the loss is
    its caller's: `forward` is handed all of its blocks. loss_backward: what runs before `backward` in the same way.
    saves: storages of the program that nodes keep. uses: those of other sections that were read. early: what backward
    does before a checkpoint that is not reentrant runs `forward` again, which it does when the first saved tensor is
    asked for: it is handed the gradient, and `backward` all of its blocks in place of the gradient.
    asked: what was asked about the GPU, with its answers.
    """

    forward: Template
    out: int
    out_bytes: int
    entry_dropped: bool
    entry_saved: bool = False
    backward: Template | None = None
    entry_grad: int = -1
    grads: tuple[PieceGrad, ...] = ()
    casts: tuple[int, ...] = ()
    after_forward: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    policy: tuple[int, ...] = ()
    attributes: tuple[int, ...] = ()
    model: Template | None = None
    loss_backward: Template | None = None
    early: Template | None = None
    saves: frozenset[int] = frozenset()
    uses: frozenset[int] = frozenset()
    asked: tuple[Question, ...] = ()


def template(heap: Heap, begin: int, end: int, first_own: int, sizes: int | None = None) -> Template:
    """The events from `begin` to `end` of a heap's log."""
    events = heap.events[begin:end]
    count = len(heap.sizes) if sizes is None else sizes
    level = peak = top = 0
    for position, event in enumerate(events):
        level += heap.sizes[event] if event >= 0 else -heap.sizes[~event]
        if level > peak:
            peak, top = level, position
    return Template(
        tuple(events), tuple(heap.sizes[:count]), tuple(heap.labels[:count]), first_own, peak, level, top
    )


def entry_bytes(scope: Scope, section: Section, dtype: str | None = None) -> int:
    """Bytes of the hidden state that comes in (`dtype` None: as it was recorded)."""
    assert section.inlet is not None
    return numel(scope.shape(section.inlet)) * ITEM[dtype or scope.program.tensors[section.inlet][3]]


def build(
    scope: Scope,
    section: Section,
    more: Section | None = None,
    *,
    requires: bool,
    pinned: bool = False,
    reentrant: bool = False,
    hold_grad: bool = False,
    root: int | None = None,
    dropped: Sequence[int] = (),
    to_fp32: Sequence[int] = (),
    kept: Sequence[int] = (),
    finish: Callable[[Scope], Tensor] | None = None,
    given: Sequence[int] = (),
) -> Piece:
    """Plays forward (`more` after `section`) and, where the scope has a graph, backward.

    `requires`: the hidden state wants a gradient. `pinned`: somebody else holds the hidden state, so it is not freed
    here. `reentrant`: what went out and its gradient are held until backward is done. `hold_grad`: somebody else holds
    the gradient of what went out, and frees it. `root`: where backward starts (default: what goes on). `dropped`:
    tensors that the caller holds until forward has returned; `to_fp32`: which of them are cast when it does. `kept`:
    tensors that the caller holds for longer. `finish`: composes what follows, and gives what goes on. `given`: bytes of
    what a recomputation is given.
    """
    heap, graph = scope.heap, scope.graph
    entry, storage = _entry(scope, section, pinned)
    scope.given = [heap.hand_in(size, "kept by the checkpoint policy") for size in given]
    first: Node | None = None
    if graph is not None and requires and entry is not None:
        first = graph.add("entry", [], [entry])
    run(scope, section)
    if more is not None:
        assert section.outlet is not None
        assert more.inlet is not None
        link(scope, section.outlet, more.inlet)
        if scope.partition is not None:
            scope.pinned |= {each for freed in scope.partition.ends.values() for each in freed}
        scope.partition = None
        if graph is not None:
            graph.fused = False
        run(scope, more)
    heap.stopped = False
    out = finish(scope) if finish is not None else scope.tensor(_root(section, root))
    _return(scope, dropped, to_fp32)
    entry_dropped = (
        entry is not None and storage not in scope.pinned and entry.storage.refs < 1 + _saves(entry, graph)
    )
    if graph is not None and graph.unpacks:
        # The recomputation's own graph is gone when it has ended; backward runs on that of forward.
        for gone in scope.attributes:
            heap.release(gone)
        scope.attributes = []
    count, events = len(heap.sizes), len(heap.events)
    model = None
    begin, own = scope.returned
    if begin:
        model = template(heap, 0, begin, 1 + len(given), own)
    forward = template(heap, begin, events, own if begin else 1 + len(given))
    casts = [each.storage.number for each in scope.cached.values()]
    for each in scope.cached.values():
        each.storage.refs -= 1
    loose = tuple(
        each.storage.number
        for each in scope.cached.values()
        if each.storage.refs <= 0 and each.storage.number >= 0
    )
    saved = entry is not None and _saves(entry, graph) > 0
    saves, uses = _held(scope)
    piece = Piece(
        forward,
        out.storage.number,
        out.bytes,
        entry_dropped,
        entry_saved=saved,
        casts=tuple(casts),
        after_forward=loose,
        kept=tuple(scope.tensor(number).storage.number for number in kept),
        policy=tuple(each.number for each in scope.kept),
        attributes=tuple(each.number for each in scope.attributes),
        model=model,
        saves=saves,
        uses=uses,
    )
    if graph is None:
        return piece
    if not out.requires:
        graph.end()
        return replace(piece, asked=tuple(graph.asked))
    grad = Tensor(heap.hand_in(out.bytes, "gradient"), out.shape, out.strides, out.dtype)
    if reentrant or hold_grad:
        grad.storage.refs += 1
    if not reentrant:
        out.storage.refs -= 1
    graph.backward(out, grad, stop=first, until=scope.returned_nodes)
    if reentrant:
        if not hold_grad:
            heap.release(grad.storage)
        if out.storage.number >= 0 and out.storage.refs > 0:
            heap.release(out.storage)
    for left in scope.given:
        heap.release(left)
    return _finished(piece, heap, graph, first, count, events)


def play_forward(scope: Scope, section: Section, *, requires: bool) -> None:
    """Forward alone, of a hidden state that somebody else holds: the scope tells what it saved."""
    entry, _ = _entry(scope, section, pinned=True)
    if scope.graph is not None and requires and entry is not None:
        scope.graph.add("entry", [], [entry])
    run(scope, section)


def _root(section: Section, root: int | None) -> int:
    number = section.outlet if root is None else root
    assert number is not None
    return number


def _return(scope: Scope, dropped: Sequence[int], to_fp32: Sequence[int]) -> None:
    """The model's forward returns, its caller takes the loss and lets go of the rest."""
    casts = []
    for number in to_fp32:
        tensor = scope.tensor(number)
        if tensor.dtype != "fp32":
            casts.append(apply(scope, "aten._to_copy", [tensor], tensor.shape, "fp32"))
    for number in dropped:
        storage = scope.tensor(number).storage
        if storage.number >= 0:
            scope.heap.release(storage)
    for cast in casts:
        scope.heap.release(cast.storage)


def _entry(scope: Scope, section: Section, pinned: bool) -> tuple[Tensor | None, int]:
    if section.inlet is None:
        scope.heap.hand_in(0, "nothing")
        return None, -1
    storage_number, _, _, dtype = scope.program.tensors[section.inlet]
    if scope.widening is not None and section.inlet in scope.widening.wide:
        dtype = "fp32"
    storage = scope.heap.hand_in(entry_bytes(scope, section, dtype), "hidden state")
    entry = Tensor(storage, scope.shape(section.inlet), scope.strides(section.inlet), dtype)
    scope.tensors[section.inlet] = entry
    scope.storages[storage_number] = storage
    scope.ids[id(storage)] = storage_number
    if pinned:
        scope.pinned.add(storage_number)
    return entry, storage_number


def _saves(entry: Tensor, graph: Graph | None) -> int:
    if graph is None:
        return 0
    return sum(each.saved.count(entry.storage) for each in graph.nodes)


def _held(scope: Scope) -> tuple[frozenset[int], frozenset[int]]:
    """The program's storages that nodes keep, and those of other sections that were read."""
    kept = {id(each) for node in (scope.graph.nodes if scope.graph else ()) for each in node.saved}
    return (
        frozenset(number for number, each in scope.storages.items() if id(each) in kept),
        frozenset(number for number, each in scope.storages.items() if each.name.startswith("outer:")),
    )


def _finished(piece: Piece, heap: Heap, graph: Graph, first: Node | None, count: int, events: int) -> Piece:
    entry_grad = -1
    if first is not None and first.grads and first.grads[0] is not None:
        grad = first.grads[0]
        entry_grad = grad.storage.number
        if entry_grad >= 0:
            heap.labels[entry_grad] = (Category.ACTIVATIONS, "gradient of the hidden state")
    grads = tuple(
        PieceGrad(each.tensor.storage.number, each.parameter, rounded(each.tensor.bytes), each.tensor.looks)
        for each in graph.leaves
    )
    begin, own = graph.left_loss
    loss = template(heap, events, begin, count + 1, own) if begin else None
    early = None
    if graph.unpacks and not graph.fused and graph.first_unpack[0] > events:
        begin, own = graph.first_unpack
        early = _alone(template(heap, events, begin, count + 1, own), count)
    graph.end()
    return replace(
        piece,
        asked=with_slack(graph.asked, heap.events, heap.sizes, begin or events),
        backward=template(heap, begin or events, len(heap.events), own or count + 1),
        loss_backward=loss,
        early=early,
        entry_grad=entry_grad,
        grads=grads,
    )


def _alone(its: Template, before: int) -> Template:
    """A template that has nothing to do with the blocks before that number, without them."""
    events = tuple(each - before if each >= 0 else each + before for each in its.events)
    return replace(its, events=events, sizes=its.sizes[before:], labels=its.labels[before:], first_own=1)
