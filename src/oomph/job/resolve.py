"""What a job does not say and what follows from the rest of it, each with a sentence."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.names import machine_type
from oomph.job.config import stored_dtype
from oomph.job.model import DType, Framework, Job, Model

#: GPUs of a node where nothing says: most cloud machines for training have 8.
_PER_NODE = 8
#: Frameworks that checkpoint with torch's checkpoint_wrapper, which is not reentrant by default
#: (torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py).
_WRAPPER = ("lightning", "litgpt", "pytorch-lightning", "torchtitan", "torchtune")
_TRANSFORMERS = ("transformers", "trl", "axolotl", "llama-factory", "fms-acceleration")

Step = Callable[[Job], tuple[Job, str]]


def resolve(job: Job) -> tuple[Job, tuple[str, ...]]:
    """The job with its open fields filled, and a sentence for each choice.

    Filled are what follows from the job: the type of gradients and of the optimizer's states, the ranks of a hybrid
    shard group, the number of GPUs, and how the framework of that version checkpoints. What different code does
    differently and no version decides (`use_orig_params`, the type of the reduction) stays None: the plan takes what
    the framework's code does, and an interval where that is open.
    """
    sentences = []
    for step in _STEPS:
        job, sentence = step(job)
        if sentence:
            sentences.append(sentence)
    return job, tuple(sentences)


def loaded_dtype(model: Model, framework: Framework) -> DType:
    """The type that weights have after from_pretrained when nobody says: as config.json has it since transformers 5
    (modeling_utils.py: dtype = "auto"), fp32 before; as config.json has it where the version is not known, since
    current code does so; fp32 where config.json does not say."""
    version = framework.version("transformers")
    stored = stored_dtype(model)
    if stored is None or (version is not None and version < (5,)):
        return "fp32"
    return stored


def _grads(job: Job) -> tuple[Job, str]:
    """Autograd makes a gradient in its parameter's type (torch/csrc/autograd/functions/accumulate_grad.h)."""
    if job.precision.grads is not None or _several_types(job):
        return job, ""
    kind = _trained(job)
    job = replace(job, precision=replace(job.precision, grads=kind))
    return job, f"Gradients are {kind}, as the parameters that train."


def _several_types(job: Job) -> bool:
    """Whether modules train whole beside adapters of another type: their gradients differ."""
    lora = job.method.lora
    return lora is not None and bool(lora.modules_to_save) and lora.dtype != job.precision.weights


def _trained(job: Job) -> DType:
    """The type of the parameters that train."""
    lora = job.method.lora
    kind = job.precision.weights if job.method.name == "full" or lora is None else lora.dtype
    return "fp32" if kind == "tf32" else kind


def _state(job: Job) -> tuple[Job, str]:
    optimizer, zero = job.optimizer, job.parallel.strategy.startswith("zero")
    if optimizer.state is not None or (optimizer.name == "sgd" and not optimizer.momentum):
        return job, ""  # said, or without any
    kind: DType
    if optimizer.impl == "torchao":
        kind, why = "int8", "torchao's 8-bit optimizer is the usual one"
    elif optimizer.impl in ("bnb", "bnb_paged"):
        kind, why = "fp32", "nothing says that it is bitsandbytes' 8-bit one (optimizer.state int8)"
    elif job.precision.master or (zero and _trained(job) != "fp32"):
        kind, why = "fp32", "it steps the fp32 copy of the weights"
    elif _several_types(job):
        return job, ""
    else:
        kind, why = _trained(job), "as the parameters that train"
    return replace(
        job, optimizer=replace(optimizer, state=kind)
    ), f"The optimizer's states are {kind}: {why}."


def _reentrant(job: Job) -> tuple[Job, str]:
    if job.checkpointing.mode == "none" or job.checkpointing.reentrant is not None:
        return job, ""
    name, version = job.framework.name.lower(), job.framework.version("transformers")
    if name in _WRAPPER:
        way, why = False, f"as {job.framework.name} does"
    elif name in _TRANSFORMERS and version is not None:
        # PreTrainedModel.gradient_checkpointing_enable: use_reentrant True until transformers 5
        way, why = version < (5,), f"as transformers {version[0]} does"
    else:
        return job, ""
    words = "reentrant" if way else "not reentrant"
    return (
        replace(job, checkpointing=replace(job.checkpointing, reentrant=way)),
        f"Activation checkpointing is {words}, {why}.",
    )


def _shard_size(job: Job) -> tuple[Job, str]:
    parallel = job.parallel
    if not parallel.strategy.endswith("hybrid_shard") or parallel.shard_size is not None:
        return job, ""
    node = job.hardware.per_node or _of_machine(job.hardware.machine) or _PER_NODE
    size = max(1, node // max(1, parallel.tensor * parallel.context))
    while size > 1 and parallel.data % size:
        size -= 1
    size = max(1, min(size, parallel.data))
    job = replace(job, parallel=replace(parallel, shard_size=size))
    return job, f"A shard group of {size} data ranks: those of one node of {node} GPUs."


def _of_machine(name: str) -> int | None:
    """GPUs of a machine type, None where it is not known."""
    if not name:
        return None
    try:
        return machine_type(name).count or None
    except UsageError:  # the check of the job says so
        return None


def _gpus(job: Job) -> tuple[Job, str]:
    """A job without hardware runs on as many GPUs as it has ranks."""
    hardware, ranks = job.hardware, job.parallel.ranks
    if hardware.gpu or hardware.machine or hardware.gpus > 1 or ranks <= 1:
        return job, ""
    return replace(job, hardware=replace(hardware, gpus=ranks)), f"{ranks} GPUs, one for each rank."


_STEPS: tuple[Step, ...] = (_grads, _state, _reentrant, _shard_size, _gpus)
