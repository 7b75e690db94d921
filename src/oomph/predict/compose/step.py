"""Two steps of training on one rank: load, forward, backward, optimizer, in the order in which PyTorch runs them.

The second step differs from the first: optimizer states are there from its start. What the caller's code holds on to,
and when gradients go, is the framework's (`predict/frameworks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oomph.hardware.gpus import Gpu
from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose.backward import Backward
from oomph.predict.compose.forward import Forward
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
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


def workspace_bytes(gpu: Gpu | None) -> int:
    """Bytes of one workspace of cuBLAS."""
    hopper = gpu is not None and tuple(gpu.capability) == (9, 0)
    return HOPPER_WORKSPACE_BYTES if hopper else WORKSPACE_BYTES


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
        self._parameters = self.stepped()
        self.stepper.setup(self.sink, self._parameters)

    def stepped(self) -> tuple[UnitParameter, ...]:
        """What the optimizer steps with."""
        return tuple(self.sharding.optimizer_parameters())

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
        size = workspace_bytes(self.setup.gpu)
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
