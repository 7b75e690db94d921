"""A job in words: which model, on what, trained how."""

from __future__ import annotations

from oomph.job.model import Job, Optimizer, Parallel, Precision
from oomph.report.clean import clean, cut, flat

#: Characters of a model's name.
_NAME = 100

#: What it is called, and which kind of it.
_STRATEGIES = {
    "none": ("", ""),
    "ddp": ("DDP", ""),
    "fsdp1_full_shard": ("FSDP1", ", full shard"),
    "fsdp1_shard_grad_op": ("FSDP1", ", gradients and optimizer sharded"),
    "fsdp1_no_shard": ("FSDP1", ", nothing sharded"),
    "fsdp1_hybrid_shard": ("FSDP1", ", sharded within groups"),
    "fsdp2_full": ("FSDP2", ", resharded after forward"),
    "fsdp2_no_reshard": ("FSDP2", ", not resharded after forward"),
    "fsdp2_hybrid_shard": ("FSDP2", ", sharded within groups"),
    "zero1": ("ZeRO-1", ""),
    "zero2": ("ZeRO-2", ""),
    "zero3": ("ZeRO-3", ""),
}
_OPTIMIZERS = {
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
    "adafactor": "Adafactor",
    "lion": "Lion",
    "muon": "Muon",
}
_IMPLS = {
    "foreach": "foreach",
    "fused": "fused",
    "for_loop": "for-loop",
    "capturable": "capturable",
    "in_backward": "stepping in backward",
    "bnb": "bitsandbytes",
    "bnb_paged": "bitsandbytes, paged",
    "torchao": "torchao",
}
_CHECKPOINTING = {
    "none": "no checkpointing",
    "full": "every block checkpointed",
    "selective_op": "operators checkpointed selectively",
}


def tidy(text: str, limit: int = 500) -> str:
    """Text from outside on one line, harmless for a terminal, of `limit` characters at most."""
    return cut(flat(clean(text)), limit)


def model_words(job: Job) -> str:
    """The model's name, or its family where it has none."""
    return tidy(job.model.name or job.model.family or "a model without a name", _NAME)


def place_words(job: Job) -> str:
    """The GPUs: "8 x NVIDIA H100 80GB HBM3 (p5.48xlarge)"; "a GPU that is not named"."""
    hardware = job.hardware
    name = (
        _gpu_name(hardware.gpu) if hardware.gpu else "GPU" if hardware.gpus > 1 else "a GPU that is not named"
    )
    count = f"{hardware.gpus:,} x " if hardware.gpus > 1 else ""
    machine = f" ({tidy(hardware.machine)})" if hardware.machine else ""
    return f"{count}{name}{machine}"


def training_words(job: Job) -> str:
    """How it trains, in the order in which people say it."""
    parts = [
        method_words(job),
        parallel_words(job.parallel),
        precision_words(job.precision),
        optimizer_words(job.optimizer),
        batch_words(job),
        _checkpointing(job),
        f"attention {job.attention.replace('_', '-')}",
        "" if job.loss == "default" else f"loss {job.loss.replace('_', '-')}",
        "compiled" if job.compile else "",
        "activations offloaded" if job.activation_offload else "",
        _framework(job),
    ]
    return "; ".join(part for part in parts if part)


def method_words(job: Job) -> str:
    """Whole weights, or adapters and what they stand on."""
    method = job.method
    if method.lora is None:
        return "all weights train" if not method.frozen else "some weights are frozen"
    kind = "DoRA" if method.lora.dora else "LoRA"
    quantization = method.quantization
    on = ""
    if quantization is not None:
        twice = ", quantised twice" if quantization.double else ""
        on = f" on {quantization.kind} weights{twice}"
    return f"{kind} of rank {method.lora.rank:,} on {tidy(', '.join(method.lora.targets))}{on}"


def parallel_words(parallel: Parallel) -> str:
    """The ways in which ranks share the work; "" for one GPU."""
    parts = []
    strategy, kind = _STRATEGIES[parallel.strategy]
    if strategy:
        parts.append(f"{strategy} over {parallel.data:,}{kind}")
    elif parallel.data > 1:
        parts.append(f"{parallel.data:,} data ranks")
    for name in ("tensor", "context", "pipeline", "expert"):
        degree = getattr(parallel, name)
        if degree > 1:
            parts.append(f"{name} parallel over {degree:,}")
    if parallel.sequence_parallel:
        parts.append("sequence parallel")
    if parallel.offload_parameters:
        parts.append("parameters on the host")
    return ", ".join(parts)


def precision_words(precision: Precision) -> str:
    """The weights, and what computes."""
    if precision.master:
        return f"{precision.weights} weights with a copy in fp32"
    if precision.autocast:
        return f"{precision.weights} weights, {precision.compute} autocast"
    if precision.compute != precision.weights:
        return f"{precision.weights} weights, {precision.compute} products"
    return f"{precision.weights} weights"


def optimizer_words(optimizer: Optimizer) -> str:
    """The optimizer and its implementation."""
    name = _OPTIMIZERS.get(optimizer.name, tidy(optimizer.name))
    state = f", {optimizer.state} states" if optimizer.state else ""
    away = {"cpu": ", states on the host", "nvme": ", states on NVMe"}.get(optimizer.offload, "")
    return f"{name} ({_IMPLS[optimizer.impl]}{state}{away})"


def batch_words(job: Job) -> str:
    """Samples, their length, and forwards of a step."""
    batch = job.batch
    size = [f"batch {batch.micro:,}"]
    if batch.sequence is not None:
        size.append(f"{batch.sequence:,} tokens")
    if batch.image_size is not None:
        size.append(f"{batch.image_size:,} pixels")
    more = f", {batch.accumulation:,} forwards a step" if batch.accumulation > 1 else ""
    return f"{' x '.join(size)}{more}"


def _checkpointing(job: Job) -> str:
    mode = job.checkpointing.mode
    if mode == "every_n":
        return f"one block of {job.checkpointing.every:,} checkpointed"
    return _CHECKPOINTING[mode]


def _framework(job: Job) -> str:
    framework = job.framework
    versions = dict(framework.versions)
    own = versions.pop(framework.name, "") if framework.name else ""
    names = [f"{framework.name} {own}".strip()] if framework.name else []
    names += [f"{name} {version}" for name, version in versions.items()]
    return tidy(", ".join(names))


def _gpu_name(name: str) -> str:
    from oomph.errors import UsageError
    from oomph.hardware.names import gpu

    try:
        return gpu(name).name
    except UsageError:
        return tidy(name)
