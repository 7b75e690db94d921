"""Training on preferences: one forward of the policy over all that is compared, one of the reference, and a loss of
their log-probabilities.

Source: trl 1.16, trl/trainer/dpo_trainer.py (_compute_loss: chosen and rejected completions are one batch of twice the
samples; the reference runs while the policy's graph waits). docs/terms/preference.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from oomph.errors import UsageError
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.evaluate import evaluating, save
from oomph.predict.compose.forward import Forward
from oomph.predict.compose.inference import NO_GRAD, Pass
from oomph.predict.compose.log_probs import log_probs
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.reference import Reference, reference_of, scores_of
from oomph.predict.compose.reward import rewards, with_score
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step, micro_batches
from oomph.predict.compose.undropped import without_dropout
from oomph.predict.compose.units import units_of
from oomph.predict.engine.piece import Piece
from oomph.predict.optimizers import stepper_for
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink

#: Sequences of one sample: a chosen and a rejected completion.
_SEQUENCES = {"dpo": 2, "reward": 2}


def sequences_of(setup: Setup, rows: int | None = None) -> Setup:
    """The setup whose batch is what one forward runs: `rows` samples (None: the job's), each with all its
    completions, without dropout (disable_dropout)."""
    job = setup.job
    micro = (rows or job.batch.micro) * _SEQUENCES.get(job.objective.name, 1)
    changed = without_dropout(
        msgspec.structs.replace(job, batch=msgspec.structs.replace(job.batch, micro=micro))
    )
    return Setup(changed, setup.code, setup.gpu, setup.torch, setup.plain_layers)


def only_causal(setup: Setup) -> None:
    """Raises UsageError for a model that was recorded with another head than a language model's."""
    if setup.task != "causal_lm":
        raise UsageError(
            f"unsupported: {setup.job.objective.name} of a model for {setup.task.replace('_', ' ')}; `oomph trace` "
            "runs the training script itself."
        )


def end_of(setup: Setup, mode: Mode) -> Piece:
    """What follows the layers: log-probabilities, or a reward model's scores."""
    return rewards(setup, mode) if setup.job.objective.name == "reward" else log_probs(setup, mode)


@dataclass
class PreferenceStep(Step):
    """Steps of a trainer that compares log-probabilities."""

    reference: Reference | None = None

    def load(self) -> None:
        """The policy, then the reference."""
        super().load()
        if self.reference is not None:
            self.reference.load()

    def pass_forward(self) -> Forward:
        """A forward of both models."""
        return PreferenceForward(self, self.reference)


class PreferenceForward(Forward):
    """The policy's forward with log-probabilities at its end, then the reference's."""

    def __init__(self, step: Step, reference: Reference | None) -> None:
        super().__init__(step)
        self.reference = reference

    def end(self, mode: Mode) -> Piece:
        """What is compared, and a loss of it."""
        return end_of(self.setup, mode)

    def _returned(self) -> None:
        super()._returned()
        # Autocast is the model's forward alone (accelerate wraps it).
        for handle in self.casts:
            self.sink.free(handle)
        self.casts = []
        if self.reference is not None:
            self.reference.run()
            self.sink.phase(Phase.FORWARD, "loss")


def compose_preference(setup: Setup, sink: Sink, steps: int = 2) -> Step:
    """Plays steps of training on preferences on a sink."""
    setup = sequences_of(setup)
    only_causal(setup)
    units = units_of(setup)
    if setup.job.objective.name == "reward":
        units = with_score(setup, units)
    sharding = strategy_for(setup.job, units.units, sink, setup.code, micro_batches=micro_batches(setup.job))
    reference = reference_of(setup, sink, sharding, units)
    step = PreferenceStep(setup, sink, sharding, stepper_for(setup.job), units, reference=reference)
    step.load()
    step.train(steps)
    if setup.job.evaluation.batch:
        evaluate(step)
    save(step)
    return step


def evaluate(step: PreferenceStep) -> None:
    """The loss of evaluation's batch: both models, without gradients."""
    sink, setup = step.sink, sequences_of(evaluating(step.setup))
    sink.phase(Phase.EVAL, "evaluation")
    inputs = sink.alloc(pieces.front(setup, NO_GRAD).inputs, Category.ACTIVATIONS, "batch")
    policy = Pass(sink, setup, step.sharding, step.units, Phase.EVAL)

    def head(hidden: int) -> Sequence[int]:
        if setup.job.objective.name != "reward":
            return scores_of(sink, setup, hidden)
        piece = rewards(setup, NO_GRAD)
        return [sink.play(piece.forward, [hidden])[piece.out]]

    held = policy.run(head)
    if step.reference is not None:
        _with_setup(step.reference, setup).run(Phase.EVAL)
    for handle in (*held, inputs):
        sink.free(handle)


def _with_setup(reference: Reference, setup: Setup) -> Reference:
    """The reference with another batch."""
    its = reference.setup
    job = msgspec.structs.replace(its.job, batch=setup.job.batch)
    changed = Setup(job, its.code, its.gpu, its.torch)
    return Reference(reference.sink, changed, reference.sharding, reference.units, reference.own)
