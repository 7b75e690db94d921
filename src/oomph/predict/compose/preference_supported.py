"""Which jobs with an objective of their own are played, and what is taken for granted of them."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.families import dimensions
from oomph.job.model import Job
from oomph.predict.compose.generating import completion_of, micro_batches_generated, needs_old_scores
from oomph.predict.compose.objectives import GENERATING
from oomph.predict.compose.reference import kind_of
from oomph.predict.frameworks.versions import below

#: Jobs in which TRL's trainers may be meant.
_TRL = ("", "trl", "transformers", "hf", "huggingface", "accelerate", "peft", "pytorch")
#: The trainers' names, and what is refused of them.
NAMES = {
    "dpo": "DPO",
    "kto": "KTO",
    "orpo": "ORPO",
    "reward": "reward modelling",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "ppo": "PPO",
}
_WITHOUT = {
    "orpo": "ORPO (TRL has it among its experiments, where every logit is made)",
    "ppo": "PPO (TRL has had no PPOTrainer since 1.13)",
}


def missing(job: Job) -> Iterator[str]:
    """What of an objective is not modelled."""
    objective = job.objective
    if objective.name == "default":
        return
    name = NAMES[objective.name]
    if objective.name in _WITHOUT:
        yield _WITHOUT[objective.name]
        return
    if job.framework.name.lower() not in _TRL:
        yield f"{name} under {job.framework.name} (TRL's trainers are modelled)"
        return
    yield from _older(job, name)
    parallel = job.parallel
    for ranks, kind in (
        (parallel.tensor, "tensor"),
        (parallel.context, "context"),
        (parallel.pipeline, "pipeline"),
    ):
        if ranks > 1:
            yield f"{name} beside {kind} parallelism"
    if job.compile:
        yield f"torch.compile of a model that is trained by {name}"
    if job.loss != "default":
        yield f"the loss {job.loss} beside {name}, which has its own"
    if job.batch.packed:
        yield f"packed samples for {name}"
    if dimensions(job.model).get("experts") and objective.name != "reward":
        yield f"{name} of experts (TRL adds their auxiliary loss)"
    yield from _reference(job, name)
    yield from _evaluation(job, name)
    if objective.rollouts == "vllm_colocate" and not job.hardware.gpu:
        yield "vLLM in the trainer's process on a GPU that is not named: it takes a share of it (--gpu)"


def _older(job: Job, name: str) -> Iterator[str]:
    """Releases whose code is another."""
    if job.objective.name == "reward":
        if below(job.framework, "trl", 1, 0):
            yield f"{name} by TRL before 1.0"
    elif below(job.framework, "trl", 1, 15):
        yield f"{name} by TRL before 1.15, which made every logit"
    if below(job.framework, "transformers", 4, 56):
        yield f"{name} by a TRL that takes transformers before 4.56"


def _reference(job: Job, name: str) -> Iterator[str]:
    kind = kind_of(job)
    if kind == "copy" and job.method.quantization is not None:
        yield f"a copy of quantised weights as the reference of {name}"
    if kind == "adapters_off" and job.parallel.strategy == "zero3":
        yield f"adapters that are switched off for the reference of {name} under ZeRO-3"
    if kind == "precomputed" and job.objective.name in GENERATING:
        yield f"log-probabilities of a reference that are there before {name} generates"


def _evaluation(job: Job, name: str) -> Iterator[str]:
    evaluation = job.evaluation
    if evaluation.batch and job.objective.name in GENERATING:
        yield f"evaluation of {name}, which generates"
    if evaluation.generate:
        yield f"generation in the evaluation of {name}"
    if evaluation.keep_logits:
        yield f"predictions of {name}'s evaluation that stay on the GPU"


def assumptions(job: Job) -> Iterator[str]:
    """What is taken for granted of an objective."""
    objective = job.objective
    if objective.name == "default":
        return
    name = NAMES[objective.name]
    yield f"{name} is planned as TRL 1.16 has it (from 1.15 on), with its defaults where the job says nothing."
    words = {
        "copy": "The reference is a second copy of the weights.",
        "adapters_off": "The reference is the model with its adapters switched off.",
        "precomputed": "The reference's log-probabilities were computed before; that pass, over one batch without "
        "gradients, is not planned.",
        "without": "" if objective.name == "reward" else "There is no reference model.",
    }[kind_of(job)]
    if words:
        yield words
    if objective.name in ("dpo", "kto") and objective.completion is None:
        yield "All tokens of a sample are scored (objective.completion says how many are the completion)."
    if objective.name in GENERATING:
        yield from _of_generating(job, name)


def _of_generating(job: Job, name: str) -> Iterator[str]:
    objective, completion = job.objective, completion_of(job)
    rows = job.batch.micro * micro_batches_generated(job)
    yield (
        f"{rows:,} completions of up to {completion:,} tokens are generated at once on each rank, after prompts of up "
        f"to {(job.batch.sequence or 1) - completion:,}."
    )
    if objective.rollouts == "transformers":
        yield "transformers generates: all prompts together, with a cache that grows."
    elif objective.rollouts == "vllm_server":
        yield "vLLM's server runs on other GPUs; what carries weights there takes a parameter at a time."
    elif objective.vllm_sleep:
        yield "vLLM sleeps while the model trains (level 2), and then takes what little its process keeps."
    else:
        yield (
            "vLLM in the trainer's process keeps its share of the card all the time; PyTorch's own counters count it, "
            "here it stands outside."
        )
    if needs_old_scores(job):
        yield "Log-probabilities of the completions are computed by the policy too, without gradients."
    yield f"{name}'s reward functions take nothing on the GPU."
