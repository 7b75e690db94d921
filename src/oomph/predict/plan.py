"""The plan of a job: peaks of every phase on every kind of rank, and whether it fits."""

from __future__ import annotations

from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.job.model import Job
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step
from oomph.predict.compose.units import units_of
from oomph.predict.frameworks import variants
from oomph.predict.frameworks.code import Code
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.none import Unsharded
from oomph.predict.sink import Sink

#: What the programs were recorded with, where the job names no version.
DEFAULT_TORCH = (2, 13)


def setup_of(job: Job, code: Code) -> Setup:
    """A job with one framework's code."""
    version = job.framework.version("torch")
    torch = (version[0], version[1] if len(version) > 1 else 0) if version else DEFAULT_TORCH
    return Setup(job, code, _gpu(job), torch)


def _gpu(job: Job) -> Gpu | None:
    return gpu_named(job.hardware.gpu) if job.hardware.gpu else None


def compose(setup: Setup, sink: Sink, steps: int = 2) -> Step:
    """Plays two steps of the job on a sink."""
    from oomph.predict.optimizers import stepper_for

    units = units_of(setup)
    step = Step(setup, sink, Unsharded(units.units, sink), stepper_for(setup.job), units)
    step.load()
    step.train(steps)
    return step


def code_variants(job: Job) -> tuple[Code, ...]:
    """The codes that the job may run, the likeliest first."""
    return variants(job)


def peaks(job: Job) -> PeakSink:
    """Allocated peaks by arithmetic, under the likeliest code."""
    sink = PeakSink()
    compose(setup_of(job, code_variants(job)[0]), sink)
    return sink
