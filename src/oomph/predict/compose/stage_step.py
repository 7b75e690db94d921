"""Micro-batches on one pipeline stage: forward, backward, and what is kept between and after them.

Source: torch/distributed/pipelining/stage.py of PyTorch 2.13 (forward_one_chunk, backward_one_chunk).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.backward import Backward
from oomph.predict.compose.forward import Forward, Layer
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.stage_setup import StageSetup, hidden_bytes
from oomph.predict.compose.step import Step


@dataclass
class Stage:
    """One stage of the rank, and what it has received and keeps, by micro-batch."""

    step: Step
    setup: StageSetup
    index: int
    received: list[int] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    running: dict[int, StageForward] = field(default_factory=dict)
    sent: int = -1
    outputs: list[int] = field(default_factory=list)
    output_bytes: int = 0
    accumulates: bool = False
    #: Micro-batches whose output is kept until the end, because nobody waits for its sending (None: all of them); and
    #: whether the gradients that are sent are.
    unwaited: frozenset[int] | None = frozenset()
    waits_late: bool = False
    held: list[int] = field(default_factory=list)

    def forward(self, chunk: int) -> None:
        """One micro-batch forward."""
        forward = StageForward(self, chunk)
        forward.run()
        self.running[chunk] = forward

    def backward(self, chunk: int, returns: bool) -> None:
        """One micro-batch backward. `returns`: the schedule returns the outputs."""
        forward = self.running.pop(chunk)
        backward = StageBackward(self.step, forward)
        backward.run()
        self.accumulates = self.step.sharding.holds_gradients()
        self.output_bytes = forward.kept_bytes
        for each in (*forward.kept, *backward.attributes):
            if returns and each in forward.kept:
                self.outputs.append(each)
            else:
                self.step.sink.free(each)

    def begins(self) -> None:
        """A new step: outputs of the one before are let go."""
        for each in self.outputs:
            self.step.sink.free(each)
        self.outputs = []

    def send(self, gradient: int) -> None:
        """The gradient of the input is on its way; the one before has arrived, unless nobody waits for it."""
        if self.sent >= 0:
            self._keep(self.sent, self.waits_late)
        self.sent = gradient

    def done(self, chunk: int, output: int) -> None:
        """The backward of a micro-batch has ended."""
        self._keep(output, self.unwaited is None or chunk in self.unwaited)

    def ends(self) -> None:
        """All that was sent is there."""
        for each in (*self.held, self.sent):
            if each >= 0:
                self.step.sink.free(each)
        self.held, self.sent = [], -1

    def _keep(self, handle: int, keeps: bool) -> None:
        if keeps:
            self.held.append(handle)
        else:
            self.step.sink.free(handle)


class StageForward(Forward):
    """The forward of one micro-batch on one stage."""

    def __init__(self, stage: Stage, chunk: int) -> None:
        super().__init__(stage.step)
        self.stage = stage
        self.chunk = chunk
        self.first, self.last = stage.setup.first, stage.setup.last
        self.output = -1

    def run(self) -> None:
        """Embedding or what was received; layers; output layer and loss or what is sent."""
        step, sink = self.step, self.sink
        accumulates = self.chunk > 0 and self.stage.accumulates
        sink.phase(Phase.FORWARD, f"stage {self.stage.index}")
        self.front = pieces.front(self.setup, Mode(accumulates=accumulates))
        step.sharding.forward_begin()
        step.workspace("forward")
        hidden = self.first_hidden = self._embedded() if self.first else self.stage.received[self.chunk]
        for number in range(self.setup.layers):
            hidden = self._layer(number, hidden, accumulates)
        if self.first:
            self._stack_returned()
        if self.last:
            self._head(hidden, accumulates)
        else:
            self.output = hidden
        step.sharding.forward_end()
        for handle in self.casts:
            sink.free(handle)
        self.casts = []

    def _embedded(self) -> int:
        step, sink = self.step, self.sink
        if step.units.front:
            step.sharding.forward_before(step.units.front)
        nothing = sink.alloc(0, Category.UNKNOWN, "nothing")
        self.front_handles = sink.play(self.front.piece.forward, [nothing])
        if step.units.front:
            step.sharding.forward_after(step.units.front)
        self._casts(self.front.piece, self.front_handles)
        return self.front_handles[self.front.piece.out]

    def requires(self, number: int) -> bool:
        """What is received wants a gradient."""
        return not self.first or super().requires(number)

    def mode(self, number: int, accumulates: bool) -> Mode:
        """Buffers of what is received, and of its gradient, stay."""
        mode = super().mode(number, accumulates)
        if number == 0 and not self.first:
            mode = replace(mode, pinned=True)
        if number == self.setup.layers - 1 and not self.last:
            mode = replace(mode, hold_grad=True)
        return mode


class StageBackward(Backward):
    """The backward of one micro-batch on one stage."""

    forward: StageForward

    def run(self) -> None:
        """Loss or the gradient that was received; layers in reverse; embedding or the gradient that is sent."""
        step, sink, forward = self.step, self.sink, self.forward
        step.begin_backward()
        sink.phase(Phase.BACKWARD, f"stage {forward.stage.index}")
        step.workspace("backward")
        if forward.last:
            grad = self._head()
        else:
            step.sharding.backward_begin()
            grad = forward.stage.gradients[forward.chunk]
        for number in range(step.setup.layers - 1, -1, -1):
            grad = self._layer(number, grad)
        if forward.first:
            self._front(grad)
        else:
            self._send(grad)
        step.sharding.backward_after(0, self.root_grads)
        step.sharding.backward_end()
        self.attributes += forward.graphs
        for handle in (*self.late, *forward.left):
            sink.free(handle)
        if forward.output >= 0:
            forward.stage.done(forward.chunk, forward.output)

    def _send(self, grad: int) -> None:
        """The buffer's own gradient is a copy (torch/csrc/autograd/functions/accumulate_grad.h)."""
        forward = self.forward
        copy = self.sink.alloc(hidden_bytes(forward.setup), Category.COMMUNICATION, "gradient to be sent")
        self.sink.free(grad)
        forward.stage.send(copy)

    def _let_go(self, number: int, layer: Layer, kept: bool, found: int) -> None:
        if number or self.forward.first:
            super()._let_go(number, layer, kept, found)
