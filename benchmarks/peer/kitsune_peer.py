"""torch-kitsune (`kitsune.predict`): takes a module; `predict_memory`, `estimate_lora_memory`, `estimate_multi_gpu`.

It has no checkpointing and no choice of attention or loss. Its overhead of 15 % stands for the allocator and
fragmentation: allocated counters are compared without it.
"""

from __future__ import annotations

from benchmarks.peer.meta import model
from benchmarks.peer.row import FULL_SHARDS, GRADIENT_SHARDS, CannotError, Reply, Row

NAME = "torch-kitsune"
PACKAGE = "torch-kitsune"
INSTALL: tuple[str, ...] = ("--no-deps", "torch-kitsune")
NEEDS: tuple[str, ...] = ("click",)

_TORCH = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def answer(row: Row) -> Reply:
    """The estimate for the row, by the counter that it is about."""
    from kitsune.predict import LoRAConfig, estimate_lora_memory, estimate_multi_gpu, predict_memory

    if row.split:
        raise CannotError("tensor, context or pipeline parallel")
    if row.parallel["cpu_offload"] != "none":
        raise CannotError("offload")
    if row.metric == "end_allocated":
        raise CannotError("what is left after a step")
    compute = _TORCH.get(row.precision["compute"], "bfloat16")
    batch, shape = int(row.micro_batch), (row.sequence,)
    if row.method != "full":
        if row.strategy not in ("none", "ddp"):
            raise CannotError("adapters with sharding")
        # Its formula for a quantised base starts from weights in fp32.
        base = model(row.config_path, "fp32" if row.method == "qlora" else str(row.precision["weights"]))
        targets = tuple(str(each) for each in row.lora["target_modules"])
        lora = LoRAConfig(rank=int(row.lora["rank"]), target_modules=targets, use_qlora=row.method == "qlora")
        said = estimate_lora_memory(base, shape, batch, compute, lora)
        return Reply(_counted(said, row.metric), _stand_ins(row))
    whole = model(row.config_path, str(row.precision["weights"]))
    if row.strategy in ("none", "fsdp1_no_shard"):
        single = predict_memory(whole, shape, batch, compute, "adamw", training=True)
        return Reply(_counted(single, row.metric), _stand_ins(row))
    stage = "ddp"
    if row.strategy in FULL_SHARDS:
        stage = "zero3"
    elif row.strategy in GRADIENT_SHARDS:
        stage = "zero2"
    many = estimate_multi_gpu(whole, shape, batch * row.ranks, compute, "adamw", stage, row.ranks)
    return Reply(_counted(many, row.metric), _stand_ins(row))


def _counted(said: object, metric: str) -> int:
    total, overhead = getattr(said, "total_bytes"), getattr(said, "overhead_bytes")  # noqa: B009 - three types
    return int(total if metric in ("max_reserved", "nvml_device") else total - overhead)


def _stand_ins(row: Row) -> tuple[str, ...]:
    said: tuple[str, ...] = ()
    if row.checkpointing != "none":
        said += ("no checkpointing",)
    if row.strategy.startswith("fsdp"):
        said += ("ZeRO for its strategy",)
    if row.compile:
        said += ("no torch.compile",)
    if row.optimizer["state_dtype"] in ("bf16", "fp16", "int8"):
        said += ("fp32 states",)
    return said
