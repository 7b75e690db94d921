"""The highest allocated bytes of a model with many equal layers, from the same model with a few.

A search predicts thousands of jobs. Each place of a step (the forward of the second layer, the backward of the last
but one, the loss, the optimizer) holds an amount that grows by the same number of bytes with each further layer:
weights, gradients and states of a layer, and what its forward left. So a step is composed with four and with five
layers, and the amount at each place is continued to the real number. Layers between the second and the last but one
lie on the line between those, so none of them is higher than both. Where no layer has to do with its neighbours (FSDP
gathers one ahead), the first and the last are enough: two layers, and three.

Where layers differ, or a strategy counts in buckets that many layers fill and few do not, the whole model is composed.
What is listed in the end is composed whole in any case.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from oomph.job.denoising import DENOISERS
from oomph.job.families import architecture
from oomph.job.model import Hardware, Job, Optimizer
from oomph.predict.compose.evaluate import after_training
from oomph.predict.compose.kept import ask_for_peaks, questions_of
from oomph.predict.compose.keys import generation_of
from oomph.predict.compose.run import gpu_of, setup_of
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step, micro_batches, workspace_bytes
from oomph.predict.compose.units import Units, units_of
from oomph.predict.engine.asked import Question, same_answers
from oomph.predict.frameworks import variants
from oomph.predict.frameworks.code import Code
from oomph.predict.optimizers import stepper_for
from oomph.predict.optimizers.base import Stepper
from oomph.predict.sharding import strategy_for
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink
from oomph.remedy.short_sink import Apart, Levels, Place, PlacesSink
from oomph.remedy.work import trainable

_FEW, _NEAR = 4, 2
_FEW_ALONE, _NEAR_ALONE = 2, 1
#: Below this number of layers there is nothing to win.
_MANY = 12
_FEW_BUCKETS = 4
#: Strategies whose buffers do not depend on how many layers fill them (ZeRO-2 and 3 count in buckets).
_BY_UNIT = (
    "none",
    "ddp",
    "fsdp1_full_shard",
    "fsdp1_shard_grad_op",
    "fsdp2_full",
    "fsdp2_no_reshard",
    "zero1",
)
#: Families whose layers alternate by themselves, and keys of config.json that make layers differ.
_ALTERNATE = ("gemma2", "gemma3_text", "gpt_oss", "olmo3", "cohere2")
_DIFFER = (
    "layer_types",
    "sliding_window_pattern",
    "no_rope_layers",
    "mlp_only_layers",
    "first_k_dense_replace",
)

#: Levels by what decides them but for the GPU's processors, each with what its pieces asked about those; the oldest go
#: first.
_KNOWN: dict[object, list[tuple[tuple[Question, ...], Levels]]] = {}
_MOST_KNOWN = 4096


def short_peak_bytes(job: Job) -> int | None:
    """The same as `predict.plan.peak_bytes` for a job as it is, to some bytes of rounding; None where it has to be
    composed whole. Raises UsageError as `compose` does."""
    depth = architecture(job.model).depth()
    if not _is_regular(job, depth):
        return None
    code = variants(job)[0]
    alone = job.parallel.strategy in ("none", "ddp")
    count, near = (_FEW_ALONE, _NEAR_ALONE) if alone else (_FEW, _NEAR)
    few, more = _places(job, code, count, near), _places(job, code, count + 1, near)
    if few.keys() != more.keys():
        return None
    return max(size + (more[place] - size) * (depth - count) for place, size in few.items())


def _is_regular(job: Job, layers: int) -> bool:
    """Whether every layer is like the others, and counts alike."""
    parts = architecture(job.model)
    return (
        layers >= _MANY
        and len(parts.stacks) == 1
        and len(set(parts.per_layer)) == 1
        and job.parallel.strategy in _BY_UNIT
        and job.parallel.pipeline == 1
        and job.checkpointing.mode != "every_n"
        and (job.optimizer.impl != "in_backward" or job.parallel.strategy == "none")
        and job.evaluation.batch is None
        and job.objective.name == "default"
        and not _fills_few_buckets(job)
        and not job.method.frozen
        and job.model.family not in _ALTERNATE
        and job.model.family not in DENOISERS
        and not any(job.model.get(key) for key in _DIFFER)
    )


def _fills_few_buckets(job: Job) -> bool:
    """Whether DDP's buckets are so few that a few layers fill others than many do."""
    return (
        job.parallel.strategy == "ddp" and 4 * trainable(job) < _FEW_BUCKETS * job.parallel.ddp_bucket_bytes
    )


def _places(job: Job, code: Code, layers: int, near: int) -> dict[Place, int]:
    """The highest level at each place of a step of the model with so many layers."""
    stepper = stepper_for(job)  # a new one each time: some remember what they have allocated
    if _is_made(job, code):
        stepper = _Made(stepper)
    return _levels(job, code, stepper, layers, near).with_optimizer(stepper, workspace_bytes(gpu_of(job)))


def _levels(job: Job, code: Code, stepper: Stepper, layers: int, near: int) -> Levels:
    """The levels of a step of the model with so many layers. Those of jobs that differ in nothing but their optimizer,
    in micro-batches that are not played, or in GPUs that give pieces the same answers, are the same."""
    if stepper.in_backward:
        return _composed(setup_of(job, code), stepper, layers, near)
    setup = setup_of(job, code)
    batch = replace(job.batch, accumulation=micro_batches(job))
    # ZeRO asks whether the states are on the host (sharding/choose.py); how they are paged is the optimizer's.
    optimizer = Optimizer(offload="cpu" if job.optimizer.offload in ("cpu", "nvme") else "none")
    # A single micro-batch is the last one: it is reduced in any case.
    sync = job.parallel.sync_each_batch if batch.accumulation > 1 else None
    parallel = replace(job.parallel, sync_each_batch=sync)
    hardware = Hardware(gpus=job.hardware.gpus, per_node=job.hardware.per_node)
    alike = replace(job, optimizer=optimizer, batch=batch, hardware=hardware, parallel=parallel)
    key = (alike, code, stepper.on_host, layers, generation_of(setup))
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            del _KNOWN[next(iter(_KNOWN))]
        known = _KNOWN[key] = []
    for asked, levels in known:
        if same_answers(asked, setup.gpu, peaks_only=True):
            return levels
    levels = _composed(setup, Apart(stepper.on_host), layers, near)
    known.append((questions_of(setup), levels))
    return levels


def _composed(setup: Setup, stepper: Stepper, layers: int, near: int) -> Levels:
    job, code = setup.job, setup.code
    ask_for_peaks(setup)
    # A cached property: all that follows counts layers by it.
    setup.__dict__["layers"] = layers
    sink = PlacesSink(layers, near)
    parts = (code, job.model, job.method, job.precision, job.parallel, layers)
    units = _units(parts, _Held(setup))
    sharding = strategy_for(job, units.units, sink, code, micro_batches=micro_batches(job))
    step = Step(setup, sink, sharding, stepper, units)
    step.load()
    if _is_made(job, code):
        for thread in ("forward", "backward"):
            step.workspace(thread)
        step.train(1)
    else:
        step.train(2)
    after_training(step)
    return sink.finished()


def _is_made(job: Job, code: Code) -> bool:
    """Whether one step is composed, of an optimizer that has its states. (DDP makes its buckets anew after a first
    step, so there two are composed.)"""
    return _forgets(code) and job.parallel.strategy != "ddp"


def _forgets(code: Code) -> bool:
    """Whether nothing but the states is left of a step when the next one begins, so that one step tells all."""
    holds = code.logits_through_step or code.loss_through_step or code.stray_embedding
    return code.zero_grad == "after_step" and not holds


class _Made:
    """An optimizer that has its states from the beginning."""

    def __init__(self, inner: Stepper) -> None:
        self._inner = inner
        self.in_backward = inner.in_backward
        self.on_host = inner.on_host
        self.name = inner.name
        self.assumptions = inner.assumptions

    def setup(self, sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
        """What a first step leaves."""
        self._inner.setup(sink, parameters)
        if self.on_host:
            return
        for group in [(each,) for each in parameters] if self.in_backward else [parameters]:
            self._inner.step(sink, group, first=True)

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """A step with states."""
        del first
        self._inner.step(sink, parameters, first=False)


class _Held:
    """A setup that is no part of a key."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)


@lru_cache(maxsize=256)
def _units(_parts: tuple[object, ...], held: _Held) -> Units:
    """The parameters in groups: the same objects for all jobs that differ elsewhere."""
    return units_of(held.setup)
