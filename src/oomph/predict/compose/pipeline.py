"""Steps of training on one pipeline rank: micro-batches go through its stages in the order of the schedule.

Source: torch/distributed/pipelining/stage.py and schedules.py of PyTorch 2.13: buffers for what is received are there
for every micro-batch (_setup_forward_recv_info, _setup_backward_recv_info); a stage's output is kept until its
backward is done (fwd_cache), the gradient of its input until the next backward is (bwd_sends); the last stage's outputs
until the next step (output_chunks), and are put together at the end of the step. docs/terms/pipeline-parallel.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.evaluate import save
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stages import actions, layers_of_stages, stages_per_rank
from oomph.predict.compose.step import Backward, Forward, Layer, Step
from oomph.predict.compose.units import Units, units_of
from oomph.predict.optimizers import stepper_for
from oomph.predict.optimizers.base import Stepper
from oomph.predict.programs.load import Program, Section
from oomph.predict.sharding.base import Unit
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
#: From here on torchtitan tells the schedule to return no outputs.
_RETURNS_NOTHING = "2025-11"


@dataclass(frozen=True)
class StageSetup(Setup):
    """A job whose model is one stage. first, last: it has the embedding, the output layer."""

    first: bool = True
    last: bool = True

    @cached_property
    def program(self) -> Program:
        """The program; logits are held by the schedule, not let go by the loss."""
        program = super().program
        loss = program.sections.get("loss")
        outlet = program.sections["after"].outlet
        if loss is None or loss.inlet is None or outlet is None:
            return program
        storage = program.tensors[loss.inlet][0]
        items = [item for item in loss.items if item[0] != "drop" or item[1] != storage]
        sections = {**program.sections, "loss": Section(items, loss.inlet, loss.outlet)}
        return Program(program.storages, program.tensors, sections, {**program.kept, "logits": outlet})


def stage_setup(setup: Setup, layers: int, first: bool, last: bool) -> StageSetup:
    """The setup of a stage with so many layers."""
    job = setup.job
    config = tuple(
        msgspec.structs.replace(each, value=layers) if each.key in _LAYERS else each
        for each in job.model.config
    )
    strategy = job.parallel.strategy
    # torchtitan does not reshard after forward where there are several micro-batches of a pipeline.
    strategy = "fsdp2_no_reshard" if strategy == "fsdp2_full" else strategy
    staged = msgspec.structs.replace(
        job,
        model=msgspec.structs.replace(job.model, config=config),
        parallel=msgspec.structs.replace(job.parallel, strategy=strategy),
    )
    code = replace(setup.code, logits_through_backward=True, label=f"{setup.code.label} (a stage)")
    return StageSetup(staged, code, setup.gpu, setup.torch, first=first, last=last)


def stage_units(setup: StageSetup) -> Units:
    """Groups of the stage's parameters."""
    whole = units_of(setup)
    kinds = {each.name: each.kind for each in setup.architecture.outside}
    kept: list[Unit] = []
    places: dict[int, int] = {}
    for number, unit in enumerate(whole.units):
        parameters = tuple(
            each
            for each in unit.parameters
            if number in whole.blocks or (setup.first if kinds.get(each.name) == "embedding" else setup.last)
        )
        if parameters or number == 0:
            places[number] = len(kept)
            kept.append(Unit(unit.name, parameters))
    return Units(
        tuple(kept),
        tuple(places[number] for number in whole.blocks),
        places.get(whole.front, 0),
        places.get(whole.head, 0),
    )


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


def hidden_bytes(setup: Setup) -> int:
    """Bytes of the hidden state between layers."""
    return pieces.block(setup, Mode(grad=False, pinned=True)).forward.sizes[0]


@dataclass
class PipelineRank:
    """Composes the steps of one pipeline rank on a sink, as `Step` does those of a rank that has the whole model."""

    setup: Setup
    sink: Sink
    stages: tuple[Stage, ...]
    rank: int
    end_bytes: int = 0

    @property
    def stepper(self) -> Stepper:
        """The optimizer of the first of its stages."""
        return self.stages[0].step.stepper

    @property
    def units(self) -> Units:
        """The groups of all its stages."""
        first = self.stages[0].step.units
        return replace(first, units=tuple(unit for stage in self.stages for unit in stage.step.units.units))

    def train(self, steps: int) -> None:
        """Steps of all micro-batches."""
        job = self.setup.job
        chunks = job.batch.accumulation
        order = actions(job.parallel.pipeline_schedule, self.rank, job.parallel.pipeline, chunks)
        returns = month_of(self.setup) < _RETURNS_NOTHING
        self._waits(job.parallel.pipeline_schedule, chunks)
        batch = -1
        for number in range(steps):
            self.sink.phase(Phase.FORWARD, "the batch")
            batch = self._begin(number, batch, chunks)
            for action in order:
                stage = self.stages[action.stage]
                if action.kind == "forward":
                    stage.forward(action.chunk)
                else:
                    stage.backward(action.chunk, returns)
            for stage in self.stages:
                stage.ends()
                if stage.outputs:
                    size = stage.output_bytes * chunks
                    self.sink.free(self.sink.alloc(size, Category.ACTIVATIONS, "outputs put together"))
            self._update(number == 0)

    def _waits(self, schedule: str, chunks: int) -> None:
        """What works of sending keep: 1F1B waits for the last but one output of its warm-up when only backwards are
        left (send_work), GPipe for gradients at the end, schedules of several stages for everything (send_ops)."""
        warmup = min(chunks, self.setup.job.parallel.pipeline - self.rank)
        for stage in self.stages:
            if schedule == "1f1b":
                stage.unwaited = frozenset((warmup - 2,))
            else:
                stage.waits_late = True
                stage.unwaited = None if schedule.startswith("interleaved") else frozenset()

    def _begin(self, number: int, batch: int, chunks: int) -> int:
        sink = self.sink
        inputs = pieces.front(self.stages[0].setup, Mode()).inputs
        new = sink.alloc(inputs * chunks, Category.ACTIVATIONS, "batch")
        if batch >= 0:
            sink.free(batch)
        for stage in self.stages:
            stage.begins()
            if number:
                if self.setup.code.zero_grad == "before_forward":
                    stage.step.sharding.zero_grad()
                continue
            size = hidden_bytes(stage.setup)
            for missing, kept, name in (
                (stage.setup.first, stage.received, "receive buffers (activations)"),
                (stage.setup.last, stage.gradients, "receive buffers (gradients)"),
            ):
                if not missing:
                    kept += [sink.alloc(size, Category.COMMUNICATION, name) for _ in range(chunks)]
        return new

    def _update(self, first: bool) -> None:
        self.sink.phase(Phase.OPTIMIZER, "the optimizer's step")
        for stage in self.stages:
            step = stage.step
            step.sharding.step_begin()
            if not step.stepper.in_backward and not step.stepper.on_host:
                step.stepper.step(self.sink, tuple(step.sharding.optimizer_parameters()), first)
            step.sharding.step_end()
            if self.setup.code.zero_grad == "after_step":
                step.sharding.zero_grad()
        self.end_bytes = getattr(self.sink, "current_bytes", 0)


def month_of(setup: Setup) -> str:
    """The month ("2025-06") of torchtitan that the code is of."""
    return setup.code.label.rpartition(" ")[2]


def compose_rank(setup: Setup, sink: Sink, steps: int, rank: int) -> PipelineRank:
    """Plays steps of the job as one pipeline rank. Raises UsageError, beginning with "unsupported:", for what is not
    modelled."""
    job: Job = setup.job
    ranks, each = job.parallel.pipeline, stages_per_rank(job)
    layers = layers_of_stages(setup.layers, ranks * each, month_of(setup))
    stages: list[Stage] = []
    workspaces: set[str] = set()
    for number in range(each):
        index = rank + number * ranks
        staged = stage_setup(setup, layers[index], index == 0, index == ranks * each - 1)
        units = stage_units(staged)
        sharding = strategy_for(
            staged.job, units.units, sink, staged.code, micro_batches=job.batch.accumulation, no_sync=True
        )
        step = Step(staged, sink, sharding, stepper_for(staged.job), units, _workspaces=workspaces)
        step.load()
        stages.append(Stage(step, staged, index))
    found = PipelineRank(setup, sink, tuple(stages), rank)
    found.train(steps)
    for stage in stages:
        save(stage.step)
    return found
