"""Two steps of training a denoiser, as diffusers' scripts do (examples/dreambooth, examples/text_to_image)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.denoise_play import Log, Player, Segment
from oomph.predict.compose.denoise_setup import Denoising
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step
from oomph.predict.optimizers import stepper_for
from oomph.predict.sharding.base import Grad
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink


@dataclass
class DenoiseStep(Step):
    """Composes the steps on a sink."""

    denoising: Denoising | None = None
    _handles: dict[int, int] = field(default_factory=dict)

    @property
    def its(self) -> Denoising:
        """The denoiser."""
        assert self.denoising is not None
        return self.denoising

    def load(self) -> None:
        """The model on the device, wrapped; the optimizer is made."""
        self.sink.phase(Phase.LOAD, "the loaded model")
        for unit in self.units.units:
            for each in unit.parameters:
                self._by_name[each.name] = each
        if self.its.constants:
            self.sink.alloc(self.its.constants, Category.PARAMETERS, "constants of quantised weights")
        self.sharding.setup()
        self._parameters = tuple(self.sharding.optimizer_parameters())
        self.stepper.setup(self.sink, self._parameters)

    def train(self, steps: int = 2) -> None:
        """Forward, backward and the optimizer's step, so many times; two micro-batches where gradients accumulate."""
        micro = min(2, self.setup.job.batch.accumulation)
        for _ in range(steps):
            for _number in range(micro):
                self._iteration(log_of(self.its, self.sharding.holds_gradients()))
            self.sink.phase(Phase.OPTIMIZER, "the optimizer's step")
            self.sharding.step_begin()
            if not self.stepper.in_backward and not self.stepper.on_host:
                self.stepper.step(self.sink, self._parameters, self._first)
            self.sharding.step_end()
            self._first = False
            self.sharding.zero_grad()
            self.end_bytes = getattr(self.sink, "current_bytes", 0)

    def _iteration(self, log: Log) -> None:
        self._handles = {}
        numbers = self.its.unit_numbers
        self.sink.phase(Phase.FORWARD, "latents and timesteps")
        self.next_batch(self.sink.alloc(log.inputs, Category.ACTIVATIONS, "batch"))
        self.sharding.forward_begin()
        self.workspace("forward")
        for segment in log.forward:
            unit = numbers.get(segment.module, 0)
            self.sink.phase(Phase.FORWARD, segment.module or "outside of blocks")
            self.sharding.forward_before(unit)
            self._events(log, segment)
            self.sharding.forward_after(unit)
        self.sharding.forward_end()
        self.let_go()
        self._backward(log)
        self._kept = [self._handles[each] for each in log.kept if each in self._handles]

    def _backward(self, log: Log) -> None:
        numbers = self.its.unit_numbers
        self.sink.phase(Phase.BACKWARD, "loss")
        self.workspace("backward")
        self.sharding.backward_begin()
        for segment in log.backward:
            unit = numbers.get(segment.module, 0)
            self.sink.phase(Phase.BACKWARD, segment.module or "outside of blocks")
            self.sharding.backward_before(unit)
            self._events(log, segment)
            self.sharding.backward_after(unit, list(self._gradients(segment)))
        self.sharding.backward_end()

    def _gradients(self, segment: Segment) -> Iterable[Grad]:
        for each in segment.grads:
            grad = Grad(self._handles.pop(each.block), self._by_name[each.parameter], each.bytes)
            if not self.stepper.in_backward:
                yield grad
                continue
            self.stepper.step(self.sink, (grad.parameter,), self._first)
            self.sink.free(grad.handle)

    def _events(self, log: Log, segment: Segment) -> None:
        handles, sizes, labels, sink = self._handles, log.sizes, log.labels, self.sink
        for event in log.events[segment.begin : segment.end]:
            if event >= 0:
                handles[event] = sink.alloc(sizes[event], *labels[event])
            else:
                sink.free(handles.pop(~event))


_LOGS: dict[tuple[object, ...], Log] = {}
_MOST_LOGS = 64


def log_of(denoising: Denoising, accumulates: bool, grad: bool = True) -> Log:
    """What one iteration does; made once and kept."""
    setup, job = denoising.setup, denoising.setup.job
    key = (pieces.key_of(setup), job.batch.image_size, job.checkpointing.mode, accumulates, grad)
    known = _LOGS.get(key)
    if known is None:
        if len(_LOGS) >= _MOST_LOGS:
            _LOGS.clear()
        known = _LOGS[key] = Player(denoising, accumulates=accumulates, grad=grad).log()
    return known


def compose_denoiser(setup: Setup, sink: Sink, steps: int = 2) -> DenoiseStep:
    """Plays steps of the job on a sink."""
    denoising = Denoising(setup)
    units = denoising.units
    sharding = strategy_for(setup.job, units.units, sink, setup.code)
    step = DenoiseStep(setup, sink, sharding, stepper_for(setup.job), units, denoising=denoising)
    step.load()
    step.train(steps)
    return step
