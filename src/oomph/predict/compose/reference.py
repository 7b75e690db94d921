"""The model that log-probabilities are compared with: which weights it has, and where they are.

Source: trl 1.16, trl/trainer/dpo_trainer.py (a copy of the policy's weights in its type, unless there are adapters,
which are then switched off, or its log-probabilities were computed before) and trl/models/utils.py (prepare_fsdp:
sharded as the policy is; prepare_deepspeed: partitioned under ZeRO-3, else whole). docs/terms/preference.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from oomph.job.model import Job, Method, Parallel
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose.inference import NO_GRAD, Pass
from oomph.predict.compose.log_probs import log_probs
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units, units_of
from oomph.predict.sharding.base import Sharding, Unit
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink, Template

#: Every name begins with it: nothing trains.
_ALL = ("",)


def kind_of(job: Job) -> str:
    """Which reference a job has: as it says, or as TRL has it by default."""
    objective = job.objective
    if objective.reference not in (None, "initial"):
        return str(objective.reference)
    # GRPO's beta is 0.0 by default (grpo_config.py).
    if objective.reference is None and objective.name in ("grpo", "reward"):
        return "without"
    return "copy" if job.method.lora is None else "adapters_off"


@dataclass
class Reference:
    """A model that runs forward only. `own`: it has weights of its own."""

    sink: Sink
    setup: Setup
    sharding: Sharding
    units: Units
    own: bool

    def load(self) -> None:
        """Its weights, where they are its own."""
        if self.own:
            self.sharding.setup()

    def run(self, phase: Phase = Phase.FORWARD) -> None:
        """Log-probabilities of the batch."""
        for handle in self.passing(phase).run(self._scores):
            self.sink.free(handle)

    def passing(self, phase: Phase) -> Pass:
        """A forward of it."""
        return Pass(self.sink, self.setup, self.sharding, self.units, phase, "reference model")

    def _scores(self, hidden: int) -> Sequence[int]:
        return scores_of(self.sink, self.setup, hidden)


def scores_of(sink: Sink, setup: Setup, hidden: int) -> Sequence[int]:
    """The end of a forward without gradients that is asked for log-probabilities."""
    piece = log_probs(setup, NO_GRAD)
    assert piece.model is not None
    handles = sink.play(piece.forward, sink.play(piece.model, [hidden]))
    return [handles[piece.out]]


def reference_of(setup: Setup, sink: Sink, sharding: Sharding, units: Units) -> Reference | None:
    """The reference of a job; None where no model stands by. `sharding` and `units` are the policy's."""
    kind = kind_of(setup.job)
    if kind in ("without", "precomputed"):
        return None
    frozen = _frozen(setup)
    if kind == "adapters_off":
        return Reference(sink, frozen, sharding, units, own=False)
    its_units = _copied(units_of(frozen))
    job = frozen.job
    # Adapters, the optimizer and accumulation are nothing to it.
    its = strategy_for(job, its_units.units, _Named(sink), frozen.code)
    return Reference(sink, frozen, its, its_units, own=True)


class _Named:
    """A sink that says of parameters that they are the reference's."""

    def __init__(self, inner: Sink) -> None:
        self._inner = inner

    def phase(self, phase: Phase, where: str = "") -> None:
        """As the sink does."""
        self._inner.phase(phase, where)

    def alloc(self, size_bytes: int, category: Category, name: str, stream: int = 0) -> int:
        """A new block; returns its handle."""
        if category is Category.PARAMETERS:
            name = f"{name.removeprefix('frozen ')} of the reference model"
        return self._inner.alloc(size_bytes, category, name, stream)

    def free(self, handle: int) -> None:
        """As the sink does."""
        self._inner.free(handle)

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """As the sink does."""
        return self._inner.play(template, handed)


def _frozen(setup: Setup) -> Setup:
    """The model as it was before training, without adapters. A copy's weights want gradients that nobody asks for, so
    that autocast keeps what it casts of them; it is whole under ZeRO-1 and 2 and DDP."""
    job, strategy = setup.job, setup.job.parallel.strategy
    copy = kind_of(job) == "copy"
    method = Method(name="full", quantization=job.method.quantization, frozen=() if copy else _ALL)
    if copy and strategy in ("ddp", "zero1", "zero2"):
        parallel: Parallel = msgspec.structs.replace(job.parallel, strategy="none")
    else:
        parallel = job.parallel
    checkpointing = msgspec.structs.replace(job.checkpointing, mode="none")
    changed = msgspec.structs.replace(job, method=method, parallel=parallel, checkpointing=checkpointing)
    return Setup(changed, setup.code, setup.gpu, setup.torch)


def _copied(units: Units) -> Units:
    """Its units, by names of their own: no optimizer steps them."""

    def still(unit: Unit) -> Unit:
        parameters = tuple(replace(each, trainable=False) for each in unit.parameters)
        return Unit(f"reference, {unit.name}", parameters)

    return replace(units, units=tuple(still(each) for each in units.units))
