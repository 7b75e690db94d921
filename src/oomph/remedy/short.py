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

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from oomph.job.families import architecture
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.compose.evaluate import after_training
from oomph.predict.compose.run import setup_of
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step
from oomph.predict.compose.units import Units, units_of
from oomph.predict.digest import Label
from oomph.predict.frameworks import variants
from oomph.predict.frameworks.code import Code
from oomph.predict.optimizers import stepper_for
from oomph.predict.optimizers.base import Stepper
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding import strategy_for
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink
from oomph.remedy.work import trainable

_FEW, _NEAR = 4, 2
_FEW_ALONE, _NEAR_ALONE = 2, 1
#: Below this number of layers there is nothing to win.
_MANY = 12
_LAYER = re.compile(r"\d+")
_BETWEEN = "between"
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

_Place = tuple[Phase, str, int]


def short_peak_bytes(job: Job) -> int | None:
    """The same as `predict.plan.peak_bytes` for a job as it is, to some bytes of rounding; None where it has to be
    composed whole. Raises UsageError as `compose` does."""
    layers = architecture(job.model).depth()
    if not _is_regular(job, layers):
        return None
    code = variants(job)[0]
    alone = job.parallel.strategy in ("none", "ddp")
    count, near = (_FEW_ALONE, _NEAR_ALONE) if alone else (_FEW, _NEAR)
    few, more = _places(job, code, count, near), _places(job, code, count + 1, near)
    if few.keys() != more.keys():
        return None
    return max(size + (more[place] - size) * (layers - count) for place, size in few.items())


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
        and not _fills_few_buckets(job)
        and not job.method.frozen
        and job.model.family not in _ALTERNATE
        and not any(job.model.get(key) for key in _DIFFER)
    )


def _fills_few_buckets(job: Job) -> bool:
    """Whether DDP's buckets are so few that a few layers fill others than many do."""
    return (
        job.parallel.strategy == "ddp" and 4 * trainable(job) < _FEW_BUCKETS * job.parallel.ddp_bucket_bytes
    )


def _places(job: Job, code: Code, layers: int, near: int) -> dict[_Place, int]:
    """The highest level at each place of a step of the model with so many layers."""
    setup = setup_of(job, code)
    # A cached property: all that follows counts layers by it.
    setup.__dict__["layers"] = layers
    sink = _Places(layers, near)
    parts = (code, job.model, job.method, job.precision, job.parallel, layers)
    units = _units(parts, _Held(setup))
    step = Step(setup, sink, strategy_for(job, units.units, sink, code), stepper_for(job), units)
    if _forgets(code) and job.parallel.strategy != "ddp":
        step.stepper = _Made(step.stepper)
    step.load()
    if isinstance(step.stepper, _Made):
        for thread in ("forward", "backward"):
            step.workspace(thread)
        step.train(1)
    else:
        step.train(2)
    after_training(step)
    return sink.finished()


def _forgets(code: Code) -> bool:
    """Whether nothing but the states is left of a step when the next one begins, so that one step tells all."""
    holds = code.logits_through_step or code.loss_through_step or code.stray_embedding
    return code.zero_grad == "after_step" and not holds


class _Made:
    """An optimizer that has its states from the beginning. (DDP makes its buckets anew after a first step, so there two
    are composed.)"""

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


class _Places(PeakSink):
    """A sink that keeps the highest level of each stretch between two calls of `phase`, and nothing else."""

    def __init__(self, layers: int, near: int) -> None:
        super().__init__(compose=False)
        self._layers = layers
        self._near = near
        self._found: dict[_Place, int] = {}
        self._times: Counter[tuple[Phase, str]] = Counter()
        self._place: _Place | None = None

    def phase(self, phase: Phase, where: str = "") -> None:
        """Each stretch has its own highest level: that of the whole phase is not asked for."""
        if self._place is not None:
            self._found[self._place] = self._high
        named = (phase, _role(where, self._layers, self._near))
        self._times[named] += 1
        self._place = (*named, self._times[named])
        self._high = self._level

    def _write(self, change: Mapping[Label, int]) -> None:
        del change
        self._unwritten = False

    def finished(self) -> dict[_Place, int]:
        """The highest level of each place, but for those between."""
        if self._place is not None:
            self._found[self._place] = self._high
        return {place: size for place, size in self._found.items() if _BETWEEN not in place[1]}


@lru_cache(maxsize=1024)
def _role(where: str, layers: int, near: int) -> str:
    """A place with layers by their distance from the nearer end; those in the middle are one place."""

    def role(found: re.Match[str]) -> str:
        number = int(found[0])
        if number < near:
            return f"<{number}"
        return f">{layers - number}" if layers - number <= near else _BETWEEN

    return _LAYER.sub(role, where)
