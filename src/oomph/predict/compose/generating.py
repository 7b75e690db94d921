"""Training on what the model itself wrote: completions are generated, scored by the policy as it was and by a
reference, and then trained on a micro-batch at a time.

Source: trl 1.16, trl/trainer/grpo_trainer.py and rloo_trainer.py (_prepare_inputs: all micro-batches of
`steps_per_generation` are generated at once; _generate_and_score_completions: log-probabilities without gradients a
micro-batch at a time), trl/generation/vllm_generation.py (colocate: an engine in the trainer's process, of a share of
the card; sleep(level=2) after each generation). docs/terms/preference.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose.evaluate import save
from oomph.predict.compose.forward import Forward
from oomph.predict.compose.inference import Pass
from oomph.predict.compose.log_probs import log_probs
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.preference import only_causal
from oomph.predict.compose.reference import Reference, reference_of, scores_of
from oomph.predict.compose.rollout import Generation
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step, micro_batches
from oomph.predict.compose.units import units_of
from oomph.predict.engine.piece import Piece
from oomph.predict.optimizers import stepper_for
from oomph.predict.sharding.base import Sharding
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sharding.none import Unsharded
from oomph.predict.sink import Sink

#: max_completion_length of grpo_config.py and rloo_config.py.
COMPLETION = 256


def completion_of(job: Job) -> int:
    """Tokens that are generated for each sample."""
    completion = job.objective.completion
    tokens = job.batch.sequence or 1
    return min(COMPLETION if completion is None else completion, tokens - 1)


def micro_batches_generated(job: Job) -> int:
    """Micro-batches whose completions are generated at once (grpo_config.py: as many as a step has)."""
    return job.objective.steps_per_generation or job.batch.accumulation


def needs_old_scores(job: Job) -> bool:
    """Whether log-probabilities of the policy as it generated are computed apart: always for RLOO, else where vLLM's
    are corrected by them, or the policy changes between two generations."""
    if job.objective.name == "rloo" or job.objective.rollouts != "transformers":
        return True
    return job.batch.accumulation % micro_batches_generated(job) != 0


def vllm_bytes(job: Job, card_bytes: int | None) -> int:
    """What vLLM's engine takes of a card: its share, less nothing (vllm/v1/worker/gpu_worker.py: what its weights and
    its passes do not need of it becomes its cache). Raises UsageError where no card is named."""
    if job.objective.rollouts != "vllm_colocate":
        return 0
    if card_bytes is None:
        raise UsageError(
            "unsupported: vLLM in the trainer's process takes a share of a GPU that is not named (--gpu)."
        )
    return int(job.objective.vllm_memory * card_bytes)


@dataclass
class GeneratingStep(Step):
    """Steps that begin with completions."""

    reference: Reference | None = None
    _micro: int = 0
    _buffered: list[int] = field(default_factory=list)

    def load(self) -> None:
        """The policy, then the reference."""
        super().load()
        if self.reference is not None:
            self.reference.load()

    def pass_forward(self) -> Forward:
        """A forward of the policy; before the first of a step all of its completions are made."""
        if self._micro % micro_batches(self.setup.job) == 0:
            self._roll_out()
        self._micro += 1
        return ScoringForward(self)

    def _roll_out(self) -> None:
        job = self.setup.job
        for handle in self._buffered:
            self.sink.free(handle)
        rows = job.batch.micro * micro_batches_generated(job)
        self._generate(rows)
        tokens = rows * (job.batch.sequence or 1)
        # Tokens and masks of 8 bytes; log-probabilities and advantages in fp32.
        size = tokens * (8 + 8) + 3 * 4 * rows * completion_of(job)
        self._buffered = [self.sink.alloc(size, Category.ACTIVATIONS, "completions of this step")]
        if needs_old_scores(job):
            self._score(Pass(self.sink, self.setup, self.sharding, self.units, Phase.FORWARD, "old policy"))
        if self.reference is not None:
            self.reference.run()

    def _score(self, passing: Pass) -> None:
        def head(hidden: int) -> Sequence[int]:
            return scores_of(self.sink, self.setup, hidden)

        for handle in passing.run(head):
            self.sink.free(handle)

    def _generate(self, rows: int) -> None:
        job, sink = self.setup.job, self.sink
        sink.phase(Phase.GENERATE, "completions are generated")
        if job.objective.rollouts == "vllm_colocate" and job.objective.vllm_sleep:
            gpu = self.setup.gpu
            size = vllm_bytes(job, None if gpu is None else gpu.total_bytes)
            sink.free(sink.alloc(size, Category.WORKSPACE, "vLLM's engine, awake"))
        if job.objective.rollouts != "transformers":
            return
        sharding, gathered = self._while_generating()
        completion = completion_of(job)
        prompt = (job.batch.sequence or 1) - completion
        Generation(sink, self.setup, sharding, self.units, rows, prompt, completion, "drawn").run()
        for handle in gathered:
            sink.free(handle)

    def _while_generating(self) -> tuple[Sharding, list[int]]:
        """ZeRO-3 gathers the whole model (ds3_gather_for_generation)."""
        if self.setup.job.parallel.strategy != "zero3":
            return self.sharding, []
        size = sum(
            int(each.numel * each.compute_bytes) for unit in self.units.units for each in unit.parameters
        )
        held = self.sink.alloc(size, Category.COMMUNICATION, "parameters gathered for generation")
        return Unsharded(self.units.units, self.sink), [held]


class ScoringForward(Forward):
    """The policy's forward with log-probabilities of a micro-batch's completions at its end."""

    def end(self, mode: Mode) -> Piece:
        """Log-probabilities and a loss of them."""
        return log_probs(self.setup, mode)

    def _returned(self) -> None:
        super()._returned()
        for handle in self.casts:
            self.sink.free(handle)
        self.casts = []


def compose_generating(setup: Setup, sink: Sink, steps: int = 2) -> Step:
    """Plays steps of GRPO or RLOO on a sink."""
    setup = Setup(_with_completion(setup.job), setup.code, setup.gpu, setup.torch)
    only_causal(setup)
    units = units_of(setup)
    sharding = strategy_for(setup.job, units.units, sink, setup.code, micro_batches=micro_batches(setup.job))
    reference = reference_of(setup, sink, sharding, units)
    step = GeneratingStep(setup, sink, sharding, stepper_for(setup.job), units, reference=reference)
    step.load()
    step.train(steps)
    save(step)
    return step


def _with_completion(job: Job) -> Job:
    """The completion's length as a number."""
    return replace(job, objective=replace(job.objective, completion=completion_of(job)))
