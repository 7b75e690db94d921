"""From a job to a composed step on a sink."""

from __future__ import annotations

from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.job.model import Job
from oomph.predict.compose.denoise import compose_denoiser
from oomph.predict.compose.denoise_setup import is_denoiser
from oomph.predict.compose.evaluate import after_training
from oomph.predict.compose.objectives import compose_objective
from oomph.predict.compose.pipeline import PipelineRank, compose_rank
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stacks import is_stacked
from oomph.predict.compose.stacks_step import compose_stacks
from oomph.predict.compose.step import Step, micro_batches
from oomph.predict.compose.units import Units, units_of
from oomph.predict.frameworks.code import Code
from oomph.predict.optimizers import stepper_for
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink

#: What the programs were recorded with, where the job names no version.
DEFAULT_TORCH = (2, 13)


def gpu_of(job: Job) -> Gpu | None:
    """The job's GPU; None where it names none."""
    return gpu_named(job.hardware.gpu) if job.hardware.gpu else None


def setup_of(job: Job, code: Code) -> Setup:
    """A job with one framework's code."""
    version = job.framework.version("torch")
    torch = (version[0], version[1] if len(version) > 1 else 0) if version else DEFAULT_TORCH
    return Setup(job, code, gpu_of(job), torch)


def compose(
    setup: Setup, sink: Sink, steps: int = 2, units: Units | None = None, stage: int = 0
) -> Step | PipelineRank:
    """Plays steps of the job on a sink; `units` are those of the setup, where they are known; `stage`: as which rank of
    a pipeline. Raises UsageError, beginning with "unsupported:", for what is not modelled."""
    if is_denoiser(setup.job.model.family):
        return compose_denoiser(setup, sink, steps)
    if setup.job.parallel.pipeline > 1:
        return compose_rank(setup, sink, steps, stage)
    if is_stacked(setup.job.model.family):
        return compose_stacks(setup, sink, steps)
    if setup.job.objective.name != "default":
        return compose_objective(setup, sink, steps)
    units = units or units_of(setup)
    sharding = strategy_for(setup.job, units.units, sink, setup.code, micro_batches=micro_batches(setup.job))
    step = Step(setup, sink, sharding, stepper_for(setup.job), units)
    step.load()
    step.train(steps)
    after_training(step)
    return step
