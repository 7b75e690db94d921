"""Jobs of which no script is written: each reason by name, with what can be done instead."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.trial.repro.code import LOOP, TRAINER, is_accelerated, is_old_sft, is_sft, kind_of
from oomph.trial.repro.model import PHASES, Asked
from oomph.trial.repro.optimizers import loop_optimizer, trainer_optimizer
from oomph.trial.repro.tasks import task_of

_INSTEAD = (
    "`oomph bisect` takes the job's own command as its trial, and `oomph trace` runs it without a GPU; both need no "
    "script of oomph's."
)
_SHARDED = ("fsdp1", "fsdp2")


def check(asked: Asked) -> None:
    """Raises UsageError, in one sentence, that names everything that cannot be written."""
    unknown = [*_unknown(asked)]
    if unknown:
        raise UsageError(f"No script is written: {'; '.join(unknown)}.")
    found = [*asked.unsupported, *_unwritten(asked)]
    if found:
        raise UsageError(f"No script is written for {'; '.join(dict.fromkeys(found))}. {_INSTEAD}")


def _unknown(asked: Asked) -> Iterator[str]:
    """Facts that are missing, each with what gives it."""
    job, phase = asked.job, asked.phase
    evaluation = job.evaluation
    if not job.model.config:
        yield "the model is not known (--job with its config.json or its name)"
    if phase in (Phase.EVAL, Phase.GENERATE) and evaluation.batch is None:
        yield "the batch of the evaluation is not known (--eval-batch N, or evaluation.batch in the job)"
    if phase is Phase.GENERATE and not evaluation.generate:
        yield "how many tokens are generated is not known (--generate N, or evaluation.generate in the job)"
    if evaluation.keep_logits and evaluation.samples is None and _evaluates(asked):
        yield (
            "the evaluation keeps its predictions, and how many samples it has is not known "
            "(--set evaluation.samples=N)"
        )
    if phase is Phase.INIT:
        yield (
            "the failure is in the start of the process (CUDA context, NCCL), which no model has a part in "
            "(oomph doctor looks at the machine)"
        )


def _evaluates(asked: Asked) -> bool:
    return asked.phase in (None, Phase.EVAL, Phase.UNKNOWN) and asked.job.evaluation.batch is not None


def _unwritten(asked: Asked) -> Iterator[str]:
    job = asked.job
    kind = kind_of(job)
    if not kind:
        yield f"the code of {job.framework.name[:60]!r}, which trains with modules and loops of its own"
    if job.model.config and not task_of(job.model)[0].name:
        yield f"the family {job.model.family[:60]!r} with the head that its configuration names"
    if job.objective.name != "default":
        yield f"the objective {job.objective.name}"
    if job.loss not in ("default", "eager_fp32"):
        yield f"the loss {job.loss}"
    if job.compile:
        yield "torch.compile, under which the same lines take other memory"
    if job.activation_offload:
        yield "activations that are offloaded to the host"
    if job.checkpointing.mode not in ("none", "full"):
        yield f"activation checkpointing {job.checkpointing.mode}, which transformers' classes do not offer"
    if asked.phase is not None and asked.phase not in PHASES and asked.phase is not Phase.INIT:
        yield f"the phase {asked.phase}"
    if is_old_sft(job):
        yield "TRL before 0.12"
    if is_sft(job) and job.batch.packed:
        yield "packed samples in TRL's SFTTrainer"
    if is_sft(job) and job.model.config and task_of(job.model)[0].name not in ("", "causal_lm"):
        yield f"TRL's SFTTrainer with {task_of(job.model)[0].name.replace('_', ' ')}"
    yield from _numbers(job)
    yield from _method(job)
    yield from _parallel(job, kind, asked.phase)
    yield from _optimizer(job, kind)


def _numbers(job: Job) -> Iterator[str]:
    precision = job.precision
    if precision.compute == "fp8":
        yield "fp8 products"
    if precision.master:
        yield "a second copy of the weights in fp32 (DeepSpeed's, Megatron's)"
    half = ("bf16", "fp16")
    sharded = job.parallel.strategy.startswith(_SHARDED)
    mixed = precision.weights not in half and precision.compute in half
    if mixed and not precision.autocast and not sharded:
        yield f"{precision.compute} products with {precision.weights} weights without autocast"
    if precision.weights in half and precision.compute != precision.weights:
        yield f"{precision.compute} products with {precision.weights} weights"


def _method(job: Job) -> Iterator[str]:
    quantization = job.method.quantization
    if quantization is None:
        return
    if quantization.kind not in ("nf4", "fp4"):
        yield f"{quantization.kind} weights, which are made from those of a checkpoint"
    if quantization.head:
        yield "a quantised output layer"
    if job.parallel.strategy.startswith(_SHARDED):
        yield "quantised weights under FSDP"


def _parallel(job: Job, kind: str, phase: Phase | None) -> Iterator[str]:
    parallel = job.parallel
    for name, what in (
        ("tensor", "tensor parallelism"),
        ("context", "context parallelism"),
        ("pipeline", "pipeline parallelism"),
        ("expert", "expert parallelism"),
    ):
        if getattr(parallel, name) > 1:
            yield what
    if parallel.strategy.startswith("zero"):
        yield f"DeepSpeed's {parallel.strategy}, whose engine no trace can check such a script with"
    prepares = kind == TRAINER or is_accelerated(job)
    if prepares and parallel.strategy == "fsdp2_hybrid_shard":
        yield "hybrid FSDP2 through accelerate"
    if prepares and parallel.units == "blocks_and_embeddings" and parallel.strategy.startswith(_SHARDED):
        yield "units of FSDP beside the blocks through accelerate"
    if parallel.strategy.startswith(_SHARDED) and phase is Phase.GENERATE:
        yield "generation by a model that FSDP shards"
    if kind == TRAINER and (phase is Phase.GENERATE or (phase is None and job.evaluation.generate)):
        yield "generation within Trainer's evaluation"


def _optimizer(job: Job, kind: str) -> Iterator[str]:
    optimizer = job.optimizer
    known = loop_optimizer(job) if kind == LOOP else trainer_optimizer(job) if kind == TRAINER else "?"
    if not known:
        words = f"{optimizer.name} ({optimizer.impl}"
        words += f", momentum {optimizer.momentum:g}" if optimizer.momentum else ""
        whose = "Trainer" if kind == TRAINER else "a plain loop"
        yield f"the optimizer {words}) in {whose}"
    if optimizer.offload in ("cpu", "nvme") and not job.parallel.offload_parameters:
        yield "optimizer states on the host"
    elif known and optimizer.state is not None and not optimizer.impl.startswith(("bnb", "torchao")):
        trained = job.precision.weights if job.method.lora is None else job.method.lora.dtype
        if optimizer.name != "adafactor" and optimizer.state != ("fp32" if trained == "tf32" else trained):
            yield f"optimizer states in {optimizer.state} beside parameters in {trained}"
