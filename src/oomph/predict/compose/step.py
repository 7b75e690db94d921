"""Two steps of training on one rank: load, forward, backward, optimizer, in the order in which PyTorch runs them.

The second step differs from the first: optimizer states are there from its start. What the caller's code holds on to,
and when gradients go, is the framework's (`predict/frameworks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import offload, pieces
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.presents import present_bytes
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
from oomph.predict.compose.widths import first_is_wide, widens_here
from oomph.predict.engine.piece import Piece
from oomph.predict.optimizers.base import Stepper
from oomph.predict.sharding.base import Grad, Sharding, UnitParameter
from oomph.predict.sink import Sink

#: 2 * 4096 KiB + 8 * 16 KiB, and 32 MiB on Hopper (aten/src/ATen/cuda/CublasHandlePool.cpp).
WORKSPACE_BYTES = 2 * 4096 * 1024 + 8 * 16 * 1024
HOPPER_WORKSPACE_BYTES = 32 * 1024 * 1024


def micro_batches(job: Job) -> int:
    """How many micro-batches of a step are played: the first, and the last, which is reduced. FSDP has a kind between,
    whose whole gradients are added to those of an earlier one and are not reduced either."""
    return min(job.batch.accumulation, 3 if job.parallel.strategy.startswith("fsdp") else 2)


@dataclass
class Layer:
    """A layer between its forward and its backward: what comes in, and the handles of its blocks (none where it was
    checkpointed)."""

    inlet: int
    piece: Piece | None
    handles: Sequence[int] = ()
    checkpointed: bool = False


class Pass(Protocol):
    """A forward. `kept`: handles of what the caller holds of it, `kept_bytes` their bytes."""

    kept: list[int]
    kept_bytes: int

    def run(self) -> None: ...


class BackwardPass(Protocol):
    """A backward. `attributes`: handles of what lives as long as the graph."""

    attributes: list[int]

    def run(self) -> None: ...


@dataclass
class Step:
    """Composes the steps on a sink."""

    setup: Setup
    sink: Sink
    sharding: Sharding
    stepper: Stepper
    units: Units
    end_bytes: int = 0
    _workspaces: set[str] = field(default_factory=set)
    _kept: list[int] = field(default_factory=list)
    _parameters: tuple[UnitParameter, ...] = ()
    _by_name: dict[str, UnitParameter] = field(default_factory=dict)
    _first: bool = True
    _ties: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    #: First parts of tied weights' gradients, where the optimizer steps in backward.
    _halves: dict[str, int] = field(default_factory=dict)
    _views: set[str] = field(default_factory=set)
    #: The batch of the last forward: the loop's variable has it until there is another one (-1: none).
    _batch: int = -1

    def load(self) -> None:
        """The model on the device, wrapped; the optimizer is made."""
        self.sink.phase(Phase.LOAD, "the loaded model")
        for unit in self.units.units:
            for each in unit.parameters:
                if each.trainable or each.name not in self._by_name:
                    self._by_name[each.name] = each
        for parameter in self.setup.architecture.parameters:
            if parameter.tied:
                self._ties |= {parameter.name: parameter.tied, **dict(self.setup.code.ties)}
        if constants := self.setup.constants:
            parallel = self.setup.job.parallel
            if self.setup.code.shards_constants and parallel.strategy.startswith("fsdp2"):
                constants = -(-constants // (parallel.shard_size or parallel.data))
            self.sink.alloc(constants, Category.PARAMETERS, "constants of quantised weights")
        self.sharding.setup()
        self._parameters = tuple(self.sharding.optimizer_parameters())
        self.stepper.setup(self.sink, self._parameters)

    def train(self, steps: int = 2) -> None:
        """Forward, backward and the optimizer's step, so many times; some micro-batches where gradients accumulate."""
        micro = micro_batches(self.setup.job)
        code = self.setup.code
        held = 0
        for step in range(steps):
            for number in range(micro):
                begins = number == 0 and step > 0
                if begins and code.zero_grad == "before_forward":
                    self.sharding.zero_grad()
                forward = self.pass_forward()
                forward.run()
                if begins and code.zero_grad == "before_backward":
                    self.sharding.zero_grad()
                self.let_go()
                held = forward.kept_bytes if code.logits_through_step else 0
                backward = self.pass_backward(forward)
                backward.run()
                self._kept = [*forward.kept, *backward.attributes]
                if not (code.logits_through_step or code.loss_through_step):
                    self.let_go()
            self.sink.phase(Phase.OPTIMIZER, "the optimizer's step")
            self.sharding.step_begin()
            if not self.stepper.in_backward and not self.stepper.on_host:
                self.stepper.step(self.sink, self._parameters, self._first)
            self.sharding.step_end()
            self._first = False
            if code.zero_grad == "after_step":
                self.sharding.zero_grad()
            self.end_bytes = getattr(self.sink, "current_bytes", 0)
            if self.setup.job.batch.variable:
                # A typical batch is taken to be half as long as the longest: the middle of what is possible.
                self.end_bytes -= held // 2

    def pass_forward(self) -> Pass:
        """A forward, to be run."""
        return Forward(self)

    def pass_backward(self, forward: Any) -> BackwardPass:
        """The backward of one that ran."""
        return Backward(self, forward)

    def let_go(self) -> None:
        """The caller's names are bound to something else, or gone."""
        for handle in self._kept:
            self.sink.free(handle)
        self._kept = []

    def next_batch(self, handle: int) -> None:
        """The loop's variable is bound to another batch."""
        if self._batch >= 0:
            self.sink.free(self._batch)
        self._batch = handle

    def begin_backward(self) -> None:
        """No parameter has a new gradient yet."""
        self._seen.clear()

    def workspace(self, thread: str) -> None:
        """cuBLAS's workspace: one for each thread that multiplies, taken at its first product and kept."""
        if thread in self._workspaces:
            return
        self._workspaces.add(thread)
        gpu = self.setup.gpu
        hopper = gpu is not None and tuple(gpu.capability) == (9, 0)
        size = HOPPER_WORKSPACE_BYTES if hopper else WORKSPACE_BYTES
        self.sink.alloc(size, Category.WORKSPACE, f"cuBLAS workspace ({thread})")

    def _tied_sum(self, name: str, handle: int, size_bytes: int, earlier: list[Grad]) -> None:
        """A tied weight's second gradient: where the first is a view (a transposed product), their sum is a new tensor
        (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace)."""
        for place, grad in enumerate(earlier):
            if grad.parameter.name == name and name in self._views:
                total = self.sink.alloc(size_bytes, Category.GRADIENTS, name)
                self.sink.free(grad.handle)
                earlier[place] = Grad(total, grad.parameter, grad.bytes)
                break
        self.sink.free(handle)

    def _step_tied(self, name: str, handle: int, size_bytes: int) -> None:
        """A tied weight's gradient where the optimizer steps in backward: its hook runs when both parts are there."""
        first = self._halves.pop(name, None)
        if first is None:
            self._halves[name] = handle
            return
        self.stepper.step(self.sink, (self._parameter(name, size_bytes),), self._first)
        self.sink.free(first)
        self.sink.free(handle)

    def grads(
        self, unit: int, piece: Piece, handles: Sequence[int], earlier: list[Grad] | None = None
    ) -> list[Grad]:
        """A piece's gradients with their parameters; those of an optimizer that steps in backward are used up."""
        found: list[Grad] = []
        for each in piece.grads:
            handle = handles[each.number] if each.number >= 0 else -1
            name = self._ties.get(each.parameter, each.parameter)
            if handle < 0 or not each.parameter:
                continue
            if self.stepper.in_backward and name in self._ties.values():
                self._step_tied(name, handle, each.bytes)
                continue
            if unit in self.units.outside and name in self._seen:
                self._tied_sum(name, handle, each.bytes, [] if earlier is None else earlier)
                continue
            self._seen.add(name)
            if each.view:
                self._views.add(name)
            found.append(Grad(handle, self._parameter(name, each.bytes), each.bytes))
        if not self.stepper.in_backward:
            return found
        for grad in found:
            self.stepper.step(self.sink, (grad.parameter,), self._first)
            self.sink.free(grad.handle)
        return []

    def _parameter(self, name: str, size_bytes: int) -> UnitParameter:
        """By name; under another framework's names what matters is its size."""
        known = self._by_name.get(name)
        if known is not None:
            return known
        item = 4 if self.setup.precision.startswith("fp32") else 2
        return UnitParameter(name, size_bytes // item, True, item, item, item)


class Forward:
    """One forward: the layers that it leaves are what backward needs."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.setup = step.setup
        self.sink = step.sink
        self.layers: list[Layer] = []
        self.casts: list[int] = []
        #: What layers share and backward needs; and what lives as long as the graph (reentrant checkpoints' arguments).
        self.left: list[int] = []
        self.graphs: list[int] = []
        self._needed: set[int] = set()
        self._arguments: set[int] = set()
        #: The leaf that the graph holds, where the embedding's output was made to want a gradient (-1: there is none).
        self.leaf = -1
        #: From which layer on the hidden state is fp32 although the recording's is not (-1: from none on).
        self.wide_from = -1
        #: Inputs of layers have come back from the host.
        self.came_back = False
        self.kept: list[int] = []
        self.kept_bytes = 0
        self.front_handles: Sequence[int] = ()
        self.head_handles: Sequence[int] = ()

    def run(self) -> None:
        """Embedding, layers, output layer, loss."""
        step, sink = self.step, self.sink
        sink.phase(Phase.FORWARD, "embedding")
        accumulates = step.sharding.holds_gradients()
        self.trains_front = any(each.trainable for each in self._front_parameters())
        leaf = self._inputs_want_gradients()
        mode = Mode(accumulates=accumulates, joined=self.setup.root_joins, leaf=leaf)
        self.front = pieces.front(self.setup, mode)
        if first_is_wide(self.setup, self.front):
            self.wide_from = 0
        step.next_batch(sink.alloc(self.front.inputs, Category.ACTIVATIONS, "batch"))
        step.sharding.forward_begin()
        step.workspace("forward")
        if step.units.front:
            step.sharding.forward_before(step.units.front)
        nothing = sink.alloc(0, Category.UNKNOWN, "nothing")
        self.front_handles = sink.play(self.front.piece.forward, [nothing])
        if step.units.front:
            step.sharding.forward_after(step.units.front)
        self._casts(self.front.piece, self.front_handles)
        hidden = self.front_handles[self.front.piece.out]
        self.first_hidden = hidden
        if self.front.piece.backward is None and self.requires(0):
            # The leaf that was made to want a gradient is held by the graph (AccumulateGrad's variable).
            size = self.front.leaf
            self.leaf = sink.alloc(size, Category.ACTIVATIONS, "embedding output") if size else hidden
        for number in range(self.setup.layers):
            hidden = self._layer(number, hidden, accumulates)
        self._stack_returned()
        self._head(hidden, accumulates)
        for handle in self.casts:
            sink.free(handle)
        self.casts = []

    def _front_parameters(self) -> Sequence[UnitParameter]:
        units = self.step.units
        return [
            each for each in units.units[units.front].parameters if each.trainable and "embed" in each.name
        ] or [each for each in units.units[units.front].parameters if each.trainable]

    def checkpointed(self, number: int) -> bool:
        """Whether a layer's activations are recomputed."""
        checkpointing = self.setup.job.checkpointing
        if not self.requires(number) and not self.setup.layer_trains(number):
            return False
        if checkpointing.mode in ("full", "selective_op"):
            return True
        return checkpointing.mode == "every_n" and number % max(1, checkpointing.every) == 0

    def requires(self, number: int) -> bool:
        """Whether the hidden state into a layer wants a gradient: the embedding trains, or its output was made to want
        one (enable_input_require_grads, under checkpointing), or an earlier layer has something that trains."""
        if self.front.piece.backward is not None:
            return True
        return self._inputs_want_gradients() or any(
            self.setup.layer_trains(earlier) for earlier in range(number)
        )

    def _inputs_want_gradients(self) -> bool:
        """Whether the embedding's output is made to want a gradient: under checkpoints, by Trainer or for adapters."""
        job = self.setup.job
        asked = self.setup.code.inputs_want_gradients or job.method.lora is not None
        return asked and job.checkpointing.mode != "none"

    def mode(self, number: int, accumulates: bool) -> Mode:
        """How a layer's graph is built."""
        held = self.step.sharding.keeps_inputs
        units = self.step.units
        later = (
            number + 1 < self.setup.layers and self.reentrant(number + 1) and held(units.blocks[number + 1])
        )
        checkpointed = self.checkpointed(number)
        return Mode(
            grad=True,
            requires=self.requires(number),
            pinned=checkpointed or (number == 0 and self.front.held),
            reentrant=self.reentrant(number),
            accumulates=accumulates,
            hold_grad=later,
            early_stop=checkpointed and not self.reentrant(number),
            selective=self.selective,
            frozen=self.setup.frozen_in(number),
            kind=self.setup.kind(number),
            joined=self.setup.joins and self.setup.layer_trains(number),
            wide=self.wide(number),
        )

    def wide(self, number: int) -> bool:
        """Whether the hidden state into a layer (or, behind the last, into the output layer) is fp32 although the
        recording's is not."""
        return 0 <= self.wide_from <= number

    @property
    def selective(self) -> bool:
        """Whether a policy keeps some operators' results."""
        return self.setup.job.checkpointing.mode == "selective_op"

    def reentrant(self, number: int) -> bool:
        """Whether the layer is checkpointed the reentrant way."""
        asked = self.setup.job.checkpointing.reentrant
        return self.checkpointed(number) and (self.setup.code.reentrant if asked is None else asked)

    def _layer(self, number: int, hidden: int, accumulates: bool) -> int:
        step, sink = self.step, self.sink
        unit = step.units.blocks[number]
        sink.phase(Phase.FORWARD, f"block {number}")
        step.sharding.forward_before(unit)
        if self.checkpointed(number):
            mode = Mode(
                grad=False,
                pinned=True,
                selective=self.selective,
                frozen=self.setup.frozen_in(number),
                kind=self.setup.kind(number),
                wide=self.wide(number),
                attributes=bool(self.setup.int8) and not self.reentrant(number),
            )
            piece = pieces.block(self.setup, mode)
            handles = sink.play(piece.forward, [hidden])
            self._casts(piece, handles)
            self.graphs += [handles[each] for each in piece.attributes if handles[each] >= 0]
            kept = [handles[each] for each in piece.policy]
            self._needed |= piece.uses
            if self.reentrant(number):
                self._arguments |= piece.uses
            self.layers.append(Layer(hidden, None, kept, checkpointed=True))
            if presents := present_bytes(self.setup):
                self.casts.append(sink.alloc(presents, Category.ACTIVATIONS, "keys and values"))
            offload.away(self)
        else:
            piece = pieces.block(self.setup, self.mode(number, accumulates))
            handles = sink.play(piece.forward, [hidden])
            self._casts(piece, handles)
            self._needed |= piece.saves
            self.layers.append(Layer(hidden, piece, handles))
        step.sharding.forward_after(unit)
        if self.wide_from < 0 and widens_here(self.setup, piece):
            self.wide_from = number + 1
        return handles[piece.out]

    def _head(self, hidden: int, accumulates: bool) -> None:
        step, sink = self.step, self.sink
        sink.phase(Phase.FORWARD, "output layer and loss")
        if step.units.head:
            step.sharding.forward_before(step.units.head)
        self.head = self.end(
            Mode(
                accumulates=accumulates,
                requires=self.requires(self.setup.layers),
                joined=self.setup.root_joins,
                wide=self.wide(self.setup.layers),
            )
        )
        handed: Sequence[int] = [hidden]
        if self.head.model is not None:
            handed = sink.play(self.head.model, handed)
            self._returned()
            step.let_go()
        self.head_handles = sink.play(self.head.forward, handed)
        self._casts(self.head, self.head_handles)
        self.kept_bytes = sum(self.head.forward.sizes[each] for each in self.head.kept)
        self.kept = [self.head_handles[each] for each in self.head.kept if self.head_handles[each] >= 0]
        if self.head.model is None:
            self._returned()

    def end(self, mode: Mode) -> Piece:
        """What follows the layers."""
        return pieces.head(self.setup, mode)

    def _returned(self) -> None:
        """The output layer's and the model's hooks: before the loss, where that is the caller's."""
        units, sharding = self.step.units, self.step.sharding
        if units.head:
            sharding.forward_after(units.head)
        sharding.forward_end()

    def _casts(self, piece: Piece, handles: Sequence[int]) -> None:
        self.casts += [handles[each] for each in piece.after_forward if handles[each] >= 0]

    def _stack_returned(self) -> None:
        """The stack of layers has returned: its caller's names are gone. What no layer saved is free (the embedding's
        output where it had a name of its own)."""
        needed = self._needed | self.front.piece.saves
        for each in self.front.left:
            handle = self.front_handles[each.block]
            if handle < 0:
                continue
            if each.dropped and each.storage not in needed:
                self.sink.free(handle)
            else:
                # CheckpointFunction keeps the call with its arguments, and dies with the graph.
                (self.graphs if each.storage in self._arguments else self.left).append(handle)
        first = self.layers[0]
        if (
            self.front.held
            and not first.checkpointed
            and first.piece is not None
            and not first.piece.entry_saved
        ):
            self.sink.free(self.first_hidden)


class Backward:
    """The backward of a forward."""

    def __init__(self, step: Step, forward: Forward) -> None:
        self.step = step
        self.forward = forward
        self.sink = step.sink
        self.root_grads: list[Grad] = []
        self.late: list[int] = []
        #: Units of layers that have no backward.
        self.unvisited: list[int] = []
        #: What lives as long as the graph.
        self.attributes: list[int] = []

    def run(self) -> None:
        """Loss, layers in reverse, embedding."""
        step, sink, forward = self.step, self.sink, self.forward
        step.begin_backward()
        sink.phase(Phase.BACKWARD, "loss and output layer")
        step.workspace("backward")
        hidden_grad = self._head()
        for number in range(step.setup.layers - 1, -1, -1):
            hidden_grad = self._layer(number, hidden_grad)
        sink.phase(Phase.BACKWARD, "embedding")
        self._front(hidden_grad)
        step.sharding.backward_after(0, self.root_grads)
        for unit in self.unvisited:
            step.sharding.backward_after(unit, [])
        step.sharding.backward_end()
        self.attributes += forward.graphs
        for handle in (*self.late, *forward.left):
            sink.free(handle)

    def _head(self) -> int:
        step, forward = self.step, self.forward
        piece = forward.head
        assert piece.backward is not None
        start = self.sink.alloc(4, Category.TEMPORARIES, "gradient of the loss")
        handed: Sequence[int] = [*forward.head_handles, start]
        unit = step.units.head
        if piece.loss_backward is not None:
            handed = self.sink.play(piece.loss_backward, handed)
        step.sharding.backward_begin()
        if unit:
            step.sharding.backward_before(unit)
        handles = self.sink.play(piece.backward, handed)
        self._attributes(piece, handles)
        grads = step.grads(unit, piece, handles)
        if unit:
            step.sharding.backward_after(unit, grads)
        else:
            self.root_grads += grads
        return handles[piece.entry_grad] if piece.entry_grad >= 0 else -1

    def _layer(self, number: int, grad: int) -> int:
        step, sink, forward = self.step, self.sink, self.forward
        layer = forward.layers[number]
        unit = step.units.blocks[number]
        if layer.piece is not None and layer.piece.backward is None:
            # No gradient comes here: what was gathered is let go when all of backward is done.
            self.unvisited.append(unit)
            return grad
        sink.phase(Phase.BACKWARD, f"block {number}")
        step.sharding.backward_before(unit)
        piece, handles = layer.piece, layer.handles
        accumulates = step.sharding.holds_gradients()
        early: Sequence[int] = [grad]
        if piece is None:
            piece = pieces.block(step.setup, forward.mode(number, accumulates))
            early = early if piece.early is None else sink.play(piece.early, early)
            offload.back(forward, layer, piece.forward.sizes[0])
            handles = sink.play(piece.forward, [layer.inlet, *layer.handles])
            for each in piece.after_forward:
                sink.free(handles[each])
        if piece.backward is None:
            return grad
        after = sink.play(piece.backward, [*handles, *early])
        if layer.checkpointed and forward.reentrant(number):
            for each in piece.attributes:  # of a graph that is gone with the layer's backward
                sink.free(after[each])
        else:
            self._attributes(piece, after)
        kept = layer.checkpointed and forward.reentrant(number) and step.sharding.keeps_inputs(unit)
        found = after[piece.entry_grad] if piece.entry_grad >= 0 else -1
        step.sharding.backward_after(unit, step.grads(unit, piece, after))
        self._let_go(number, layer, kept, found)
        return found

    def _attributes(self, piece: Piece, handles: Sequence[int]) -> None:
        self.attributes += [handles[each] for each in piece.attributes if handles[each] >= 0]

    def _let_go(self, number: int, layer: Layer, kept: bool, found: int) -> None:
        """The layer's input: a checkpoint's, or the embedding's output where something else held it."""
        if layer.checkpointed:
            if kept:
                # The leaf and its gradient are the graph's; what goes on into the embedding's backward is used there.
                first = number == 0
                used = found if first and self.forward.front.piece.backward is not None else -1
                graphs = (self.forward.leaf, found) if first and self.forward.leaf >= 0 else (used,)
                self.late += [each for each in (layer.inlet, found) if each >= 0 and each not in graphs]
            elif layer.inlet != self.forward.leaf:
                self.sink.free(layer.inlet)
        elif number == 0 and self.forward.front.held and layer.piece is not None and layer.piece.entry_saved:
            self.sink.free(layer.inlet)

    def _front(self, grad: int) -> None:
        step, forward = self.step, self.forward
        piece = forward.front.piece
        if grad < 0:
            return
        if piece.backward is None:
            # A leaf that was made to want a gradient: it and its gradient live as long as the graph, that is, the loss.
            self.attributes += [each for each in (forward.leaf, grad) if each >= 0]
            return
        handles = self.sink.play(piece.backward, [*forward.front_handles, grad])
        self._attributes(piece, handles)
        leaves = [handles[each.number] for each in piece.grads if not each.parameter]
        self.attributes += [each for each in leaves if each >= 0]
        grads = step.grads(step.units.front, piece, handles, self.root_grads)
        if step.units.front:
            step.sharding.backward_before(step.units.front)
            step.sharding.backward_after(step.units.front, grads)
        else:
            self.root_grads += grads
