"""Two steps of training a denoiser, as diffusers' scripts do (examples/dreambooth, examples/text_to_image)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose.denoise_around import Around
from oomph.predict.compose.denoise_log import Log, Segment
from oomph.predict.compose.denoise_play import Player
from oomph.predict.compose.denoise_setup import Denoising
from oomph.predict.compose.keys import key_of
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
        if self.its.buffers:
            self.sink.alloc(self.its.buffers, Category.PARAMETERS, "positions of patches")
        around = Around(self.its)
        if around.encodes_text:
            self.sink.alloc(around.text_bytes, Category.PARAMETERS, "text encoders")
        if around.encodes_images:
            self.sink.alloc(around.vae_bytes, Category.PARAMETERS, "autoencoder")
        if around.averages:
            for size in around.average_sizes:
                self.sink.alloc(size, Category.PARAMETERS, "average of the weights (EMA)")
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
            self._average()
            self.end_bytes = getattr(self.sink, "current_bytes", 0)

    def _average(self) -> None:
        """A parameter's distance to its average, and that times the rate (training_utils.py, EMAModel.step)."""
        around = Around(self.its)
        if around.averages:
            largest = max(around.average_sizes)
            both = [
                self.sink.alloc(largest, Category.TEMPORARIES, "differences to averages") for _ in range(2)
            ]
            for handle in both:
                self.sink.free(handle)

    def _iteration(self, log: Log) -> None:
        self._handles = {}
        numbers = self.its.unit_numbers
        around = Around(self.its)
        if around.encodes_images:
            self.sink.phase(Phase.FORWARD, "the autoencoder")
            self._alone(around.autoencoder(decodes=False, images=self.setup.job.batch.micro))
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

    def _alone(self, denoising: Denoising) -> None:
        """A forward without gradients, of which nothing is left."""
        log = log_of(denoising, accumulates=False, grad=False)
        self._handles = {}
        batch = self.sink.alloc(log.inputs, Category.ACTIVATIONS, "batch")
        for segment in log.forward:
            self._events(log, segment)
        for handle in (batch, *self._handles.values()):
            self.sink.free(handle)
        self._handles = {}

    def validate(self) -> None:
        """Images from prompts: a pipeline with text encoders, denoiser and autoencoder; then latents are decoded."""
        images = self.setup.job.evaluation.batch
        if not images:
            return
        around, sink = Around(self.its), self.sink
        sink.phase(Phase.EVAL, "the pipeline's parts")
        parts = []
        if around.text_bytes and (around.loads_text_again or not around.encodes_text):
            size = around.loaded_text_bytes
            parts.append(sink.alloc(size, Category.PARAMETERS, "text encoders of the pipeline"))
        if not around.encodes_images:
            parts.append(sink.alloc(around.vae_bytes, Category.PARAMETERS, "autoencoder"))
        sink.phase(Phase.EVAL, "denoising")
        self._alone(around.validating(images))
        sink.phase(Phase.EVAL, "latents are decoded")
        self._alone(around.autoencoder(decodes=True, images=images))
        for handle in parts:
            sink.free(handle)

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
    key = (
        type(denoising),
        tuple(sorted(denoising.dims.items())),
        denoising.variant.precision,
        str(denoising.variant.more),
        key_of(setup),
        job.checkpointing.mode,
        accumulates,
        grad,
    )
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
    step.validate()
    return step
