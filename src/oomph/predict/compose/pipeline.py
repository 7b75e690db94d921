"""Steps of training on one pipeline rank: micro-batches go through its stages in the order of the schedule.

Source: torch/distributed/pipelining/stage.py and schedules.py of PyTorch 2.13: buffers for what is received are there
for every micro-batch (_setup_forward_recv_info, _setup_backward_recv_info); a stage's output is kept until its
backward is done (fwd_cache), the gradient of its input until the next backward is (bwd_sends); the last stage's outputs
until the next step (output_chunks), and are put together at the end of the step. docs/terms/pipeline-parallel.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.evaluate import save
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stage_setup import hidden_bytes, stage_setup, stage_units
from oomph.predict.compose.stage_step import Stage
from oomph.predict.compose.stages import actions, layers_of_stages, stages_per_rank
from oomph.predict.compose.step import Step
from oomph.predict.compose.units import Units
from oomph.predict.optimizers import stepper_for
from oomph.predict.optimizers.base import Stepper
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink

#: From here on torchtitan tells the schedule to return no outputs.
_RETURNS_NOTHING = "2025-11"


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
        schedule, ranks = job.parallel.pipeline_schedule, job.parallel.pipeline
        returns = month_of(self.setup) < _RETURNS_NOTHING
        # Turns of 1F1B are all alike where nothing of them is left.
        played = min(chunks, ranks + 2) if schedule == "1f1b" and chunks >= ranks and not returns else chunks
        order = actions(schedule, self.rank, ranks, played)
        self._waits(schedule, chunks)
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
