"""Jobs that cannot be: one sentence for each contradiction, with what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.names import machine_type
from oomph.job.check_objective import objective
from oomph.job.families import FAMILIES, Architecture, architecture, dimensions, major_of
from oomph.job.model import Job
from oomph.units import format_bytes

#: More than any job has of anything that is counted (ranks, samples, tokens of a sample, layers of adapters).
_MANY = 10**8
#: More tokens than one rank ever had in a forward: at 2 bytes for each of 1,024 features it would be 20 TB.
_MANY_TOKENS = 10**10
#: Frameworks in which adapters' targets are the names of the model's own modules (PEFT's `target_modules`).
_PEFT = ("", "transformers", "trl", "peft", "axolotl", "llama-factory", "accelerate")
#: What makes a target a regular expression for PEFT: which modules it means is then PEFT's to say.
_PATTERN = frozenset("*+?()[]|^$\\")
_WEIGHTS = ("fp32", "tf32", "bf16", "fp16")
_HALF = ("bf16", "fp16", "fp8")
#: bf16 arithmetic: CUDA programming guide, __nv_bfloat16, compute capability 8.0.
_BF16_FROM = (8, 0)
#: torch._scaled_mm of float8: aten/src/ATen/native/cuda/Blas.cpp, compute capability 8.9 (Ada) and from 9.0.
_FP8_FROM = (8, 9)
#: What the kernels ask for: flash-attn 2's README (Ampere or later), flash-attn 3's (Hopper), PyTorch's sdp_utils.cpp
#: (check_flash_attention_hardware_support: sm80 or later).
_ATTENTION_FROM = {"flash_attention_2": (8, 0), "flash_attention_3": (9, 0), "sdpa_flash": (8, 0)}


def check(job: Job) -> None:
    """Raises UsageError, in one sentence, for a job that contradicts itself or cannot run as described.

    A model of a family that is not known is let through: `families.dimensions` refuses it by name.
    """
    for rule in _RULES:
        for sentence in rule(job):
            raise UsageError(sentence)
    if job.model.family in FAMILIES:
        found = architecture(job.model, major_of(job.framework))
        for with_model in _MODEL_RULES:
            for sentence in with_model(job, found, dimensions(job.model)):
                raise UsageError(sentence)


def _counts(job: Job) -> Iterator[str]:
    """Everything that is counted is at least one, and not absurd."""
    batch, parallel, evaluation, hardware = job.batch, job.parallel, job.evaluation, job.hardware
    counted: tuple[tuple[str, int | None], ...] = (
        ("batch.micro", batch.micro),
        ("batch.sequence", batch.sequence),
        ("batch.accumulation", batch.accumulation),
        ("batch.image_size", batch.image_size),
        *(
            (f"parallel.{name}", getattr(parallel, name))
            for name in ("data", "tensor", "context", "pipeline", "expert")
        ),
        ("parallel.shard_size", parallel.shard_size),
        ("checkpointing.every", job.checkpointing.every),
        ("evaluation.batch", evaluation.batch),
        ("evaluation.sequence", evaluation.sequence),
        ("evaluation.samples", evaluation.samples),
        ("evaluation.accumulation_steps", evaluation.accumulation_steps),
        ("evaluation.beams", evaluation.beams),
        ("hardware.gpus", hardware.gpus),
        ("hardware.per_node", hardware.per_node),
        ("method.lora.rank", job.method.lora.rank if job.method.lora else None),
        ("method.quantization.block", job.method.quantization.block if job.method.quantization else None),
    )
    for name, value in counted:
        if value is not None and not 1 <= value <= _MANY:
            yield f"{name} is {value}; it must be from 1 to {_MANY:,}."
    if not 0 <= evaluation.generate <= _MANY:
        yield f"evaluation.generate is {evaluation.generate}; it must be from 0 to {_MANY:,} tokens."
    if batch.micro * (batch.sequence or 1) > _MANY_TOKENS:
        yield f"{batch.micro:,} samples of {batch.sequence:,} tokens in one forward are beyond any GPU."
    if parallel.ranks > _MANY:
        yield f"The parallel sizes multiply to {parallel.ranks:,} ranks, beyond any cluster."


def _sizes(job: Job) -> Iterator[str]:
    """Bytes and buckets."""
    hardware, parallel = job.hardware, job.parallel
    for name in ("free_bytes", "capacity_bytes", "host_bytes"):
        size = getattr(hardware, name)
        if size is not None and not 0 < size < 2**60:
            yield f"hardware.{name} is {size} bytes, which no machine has."
    free, capacity = hardware.free_bytes, hardware.capacity_bytes
    if free is not None and capacity is not None and free > capacity:
        yield f"{format_bytes(free)} cannot be free on a GPU that has {format_bytes(capacity)}."
    elif free is not None and capacity is not None:
        yield (
            f"What is free ({format_bytes(free)}) and what PyTorch can have in all ({format_bytes(capacity)}) are two "
            "answers to one question: give one of them."
        )
    for name in ("ddp_bucket_bytes", "zero_reduce_bucket", "zero_allgather_bucket", "zero_prefetch_bucket"):
        size = getattr(parallel, name)
        if not 0 <= size < 2**50:
            yield f"parallel.{name} is {size}; it must be from 0 to {2**50 - 1}."
    for name in ("zero_max_live_parameters", "zero_persistence_threshold"):
        if getattr(parallel, name) < 0:
            yield f"parallel.{name} is {getattr(parallel, name)}; it cannot be negative."


def _ranks(job: Job) -> Iterator[str]:
    """Ranks and GPUs are as many, and divide as they must."""
    parallel, hardware = job.parallel, job.hardware
    described = bool(hardware.gpu or hardware.machine or hardware.gpus > 1)
    if described and parallel.ranks != hardware.gpus:
        names = ("data", "tensor", "context", "pipeline")
        parts = [
            f"{name} {getattr(parallel, name)}"
            for name in names
            if getattr(parallel, name) > 1 or name == "data"
        ]
        ranks = f"are {parallel.ranks:,} ranks" if parallel.ranks > 1 else "is 1 rank"
        gpus = f"there are {hardware.gpus:,} GPUs" if hardware.gpus > 1 else "there is 1 GPU"
        yield f"{' x '.join(parts)} {ranks}, but {gpus}; each rank has one."
    if parallel.data > 1 and parallel.strategy == "none" and parallel.expert == 1:
        yield (
            f"{parallel.data} data ranks with parallel.strategy none would train {parallel.data} models apart; choose "
            "ddp, or a strategy that shards."
        )
    if parallel.data % parallel.expert:
        yield f"parallel.expert ({parallel.expert}) does not divide the data ranks ({parallel.data})."
    if parallel.shard_size is not None:
        if not parallel.strategy.endswith("hybrid_shard"):
            yield f"parallel.shard_size is for hybrid sharding; {parallel.strategy} has one group of all data ranks."
        elif parallel.data % parallel.shard_size:
            yield f"parallel.shard_size ({parallel.shard_size}) does not divide the data ranks ({parallel.data})."
    sequence = job.batch.sequence
    if sequence is not None and sequence % parallel.context:
        yield f"parallel.context ({parallel.context}) does not divide the sequence ({sequence} tokens)."


def _offload(job: Job) -> Iterator[str]:
    """What can live on the host, or be done in backward."""
    strategy, optimizer = job.parallel.strategy, job.optimizer
    if job.parallel.offload_parameters and (
        strategy in ("none", "ddp", "fsdp1_no_shard", "zero1", "zero2")
    ):  # DeepSpeed's zero/config.py: offload_param is for stage 3; FSDP1 refuses it with NO_SHARD
        yield f"parallel.offload_parameters needs FSDP with sharding, or ZeRO-3; the strategy is {strategy}."
    if optimizer.offload == "nvme" and strategy != "zero3":
        yield f"optimizer.offload nvme is ZeRO-3's (ZeRO-Infinity); the strategy is {strategy}."
    if job.parallel.pipeline > 1 and strategy in ("zero2", "zero3"):
        yield f"{strategy} does not go with pipeline parallelism: DeepSpeed's pipeline engine takes ZeRO-1 at most."
    if optimizer.impl == "in_backward" and job.batch.accumulation > 1:
        yield (
            f"An optimizer that steps inside backward keeps no gradients to accumulate over {job.batch.accumulation} "
            "micro-batches; set batch.accumulation to 1."
        )
    if job.loss == "loss_parallel" and job.parallel.tensor == 1:
        yield "loss_parallel divides the logits among tensor-parallel ranks, and parallel.tensor is 1."
    if job.evaluation.generate and job.evaluation.batch is None:
        yield "evaluation.generate needs evaluation.batch: samples at a time."


def _method(job: Job) -> Iterator[str]:
    """Adapters and quantised weights go with the method that has them."""
    method, lora = job.method, job.method.lora
    if method.name == "full":
        if method.quantization is not None:
            yield (
                f"Full training cannot update {method.quantization.kind} weights; choose qlora, or train without "
                "quantization."
            )
        if lora is not None:
            yield "method.lora is given, but the method is full: choose lora, or leave it out."
        return
    if lora is None:
        yield f"The method is {method.name}, but nothing says which adapters: give method.lora (rank, targets)."
        return
    if not lora.targets or not all(target.strip() for target in lora.targets):
        yield "method.lora.targets names no module: give some (q_proj, v_proj), or all-linear."
    if not 0 <= lora.dropout < 1:
        yield f"method.lora.dropout is {lora.dropout}; it must be from 0 up to 1."
    if lora.dtype not in _WEIGHTS:
        yield f"Adapters train in fp32, bf16 or fp16, not in {lora.dtype}."
    if method.name == "qlora" and method.quantization is None:
        yield "The method is qlora, but nothing says how weights are quantised: give method.quantization.kind (nf4)."


def _precision(job: Job) -> Iterator[str]:
    """Types that go together."""
    precision = job.precision
    if precision.weights not in _WEIGHTS:
        yield f"{precision.weights} weights do not train; frozen ones beside adapters are method.quantization's."
    if precision.compute in ("int8", "int4"):
        yield f"precision.compute is {precision.compute}; matrix products train in fp32, tf32, bf16, fp16 or fp8."
    if precision.autocast and precision.compute in ("fp32", "tf32"):
        yield f"Autocast casts to bf16 or fp16, but precision.compute is {precision.compute}."
    if precision.master and precision.weights in ("fp32", "tf32"):
        yield "precision.master is a copy in fp32 beside lower-precision weights, but the weights are fp32."
    for name in ("grads", "reduce"):
        if getattr(precision, name) in ("int8", "int4", "fp8"):
            yield f"precision.{name} is {getattr(precision, name)}; gradients are fp32, bf16 or fp16."
    if job.attention in _ATTENTION_FROM and precision.compute not in _HALF:
        yield f"{job.attention} takes bf16 or fp16, but precision.compute is {precision.compute}: use sdpa."


def _gpu(job: Job) -> Iterator[str]:
    """What the GPU can do. Raises UsageError for a GPU or a machine that nobody knows."""
    hardware = job.hardware
    if hardware.machine:
        machine_type(hardware.machine)
    if not hardware.gpu:
        return
    its = gpu_named(hardware.gpu)
    if hardware.free_bytes is not None and hardware.free_bytes > _most(its) > 0:
        yield f"{format_bytes(hardware.free_bytes)} cannot be free on {its.name}, which has {format_bytes(_most(its))}."
    if not its.is_cuda or its.capability == (0, 0):
        return
    shown = f"{its.name} (compute capability {its.capability[0]}.{its.capability[1]})"
    types = {job.precision.weights, job.precision.compute}
    if "bf16" in types and its.capability < _BF16_FROM:
        yield f"{shown} has no bf16; use fp16 or fp32."
    if "fp8" in types and its.capability < _FP8_FROM:
        yield f"{shown} has no fp8: that needs 8.9 (L4, RTX 4090) or 9.0 (H100)."
    needed = _ATTENTION_FROM.get(job.attention)
    if needed is not None and its.capability < needed:
        yield f"{job.attention} needs compute capability {needed[0]}.{needed[1]}, which {shown} lacks: use sdpa."


def _most(its: Gpu) -> int:
    return max(its.total_bytes, its.total_high_bytes)


def _divides(job: Job, _found: Architecture, dims: dict[str, int]) -> Iterator[str]:
    """Heads, layers and experts divide among ranks."""
    parallel = job.parallel
    heads, kv_heads, layers = dims.get("heads", 0), dims.get("kv_heads", 0), dims.get("layers", 0)
    if kv_heads and heads % kv_heads:
        yield f"num_key_value_heads ({kv_heads}) of {_who(job)} does not divide num_attention_heads ({heads})."
    tensor = parallel.tensor
    for what, number in (("attention heads", heads), ("feed-forward width", dims.get("intermediate", 0))):
        if number % tensor:
            yield f"parallel.tensor ({tensor}) does not divide the {what} ({number}) of {_who(job)}."
    if kv_heads % tensor and tensor % max(kv_heads, 1):
        yield f"parallel.tensor ({tensor}) and the {kv_heads} key-value heads of {_who(job)} do not divide one another."
    if layers and parallel.pipeline > layers:
        yield f"{parallel.pipeline} pipeline stages are more than the {layers} layers of {_who(job)}."
    experts = dims.get("experts", 0)
    if parallel.expert > 1 and not experts:
        yield f"parallel.expert is {parallel.expert}, but {_who(job)} has no experts."
    elif experts % parallel.expert:
        yield f"parallel.expert ({parallel.expert}) does not divide the {experts} experts of {_who(job)}."


def _positions(job: Job, found: Architecture, dims: dict[str, int]) -> Iterator[str]:
    """Text has a length, and no more tokens than positions that were learned."""
    most, sequence = found.learned_positions, job.batch.sequence
    if sequence is None:
        if "vocab" in dims and job.batch.image_size is None:
            yield f"{_who(job)} reads text: give batch.sequence, tokens per sample."
        return
    if most is not None and sequence > most:
        yield f"A sequence of {sequence} tokens is beyond the {most} positions that {_who(job)} has learned."


def _targets(job: Job, found: Architecture, _dims: dict[str, int]) -> Iterator[str]:
    """Adapters' targets and frozen prefixes name modules that are there."""
    names = [
        one.name.replace("{}", "0").rpartition(".")[0] for one in found.parameters if one.kind == "linear"
    ]
    lora = job.method.lora
    named = (
        lora is not None and "all-linear" not in lora.targets and not _PATTERN & set("".join(lora.targets))
    )
    if lora is not None and named and job.framework.name in _PEFT:
        if not any(
            name == target or name.endswith(f".{target}") for name in names for target in lora.targets
        ):
            there = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in names))
            yield f"No module of {_who(job)} is called {_listed(lora.targets)}; its linear modules are {there}."
    every = [one.name.replace("{}", "0") for one in found.parameters]
    for prefix in job.method.frozen:
        # the first part is enough: what lies below it is called otherwise in other versions of transformers
        start = f".{prefix.partition('.')[0]}"
        if job.framework.name in _PEFT and not any(start in f".{name}" for name in every):
            tops = ", ".join(dict.fromkeys(".".join(name.split(".")[:2]) for name in every))
            yield f"method.frozen: {_who(job)} has nothing called {_listed([prefix])}; it has {tops}."


def _listed(names: Iterable[str]) -> str:
    return " or ".join(name[:60] for name in list(names)[:5])


def _who(job: Job) -> str:
    return job.model.name or f"the {job.model.family} model"


_RULES: tuple[Callable[[Job], Iterator[str]], ...] = (
    _counts,
    _sizes,
    _ranks,
    _offload,
    _method,
    _precision,
    _gpu,
    objective,
)
_MODEL_RULES: tuple[Callable[[Job, Architecture, dict[str, int]], Iterator[str]], ...] = (
    _divides,
    _positions,
    _targets,
)
