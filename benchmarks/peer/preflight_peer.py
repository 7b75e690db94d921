"""torch-preflight's VRAM estimate (`torch_preflight.vram`): a cost model for transformers with ZeRO stages.

Adapters are told as its `frozen_fraction`; a quantised base it does not have. Its total includes a CUDA context and a
share for fragmentation, which it lists apart: allocated counters are compared without both, reserved ones without the
context, the whole card with both.
"""

from __future__ import annotations

from benchmarks.peer.row import FULL_SHARDS, GRADIENT_SHARDS, CannotError, Reply, Row

NAME = "torch-preflight"
PACKAGE = "torch-preflight"
INSTALL: tuple[str, ...] = ("--no-deps", "torch-preflight")
NEEDS: tuple[str, ...] = ("libcst", "rich")


def answer(row: Row) -> Reply:
    """The estimate for the row, by the counter that it is about."""
    from torch_preflight.vram import RunConfig, Sharding, TransformerShape, estimate_config
    from torch_preflight.vram.providers.static import from_shape
    from torch_preflight.vram.types import OptimizerKind, PrecisionMode

    if row.method == "qlora":
        raise CannotError("a quantised base")
    if row.split:
        raise CannotError("tensor, context or pipeline parallel")
    row.decoder()
    hidden = row.dimension("hidden_size")
    heads = row.dimension("num_attention_heads")
    if row.dimension("num_local_experts", "num_experts", default=1) > 1:
        raise CannotError("experts")
    shape = TransformerShape(
        layers=row.dimension("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        vocab=row.dimension("vocab_size"),
        intermediate=row.dimension("intermediate_size", default=4 * hidden),
        kv_heads=row.dimension("num_key_value_heads", "num_kv_heads", default=heads),
        max_position=row.dimension("max_position_embeddings", default=0),
        tied_embeddings=bool(row.config.get("tie_word_embeddings")),
        gated_mlp=row.gated,
        has_lm_head=True,
    )
    profile = from_shape(shape, row.id)
    frozen = 1 - row.lora_parameters() / profile.param_count if row.method == "lora" else 0.0
    precision = PrecisionMode.FP32
    if row.precision["weights"] != "fp32":
        precision = PrecisionMode.PURE_BF16 if row.precision["weights"] == "bf16" else PrecisionMode.PURE_FP16
    elif row.precision["compute"] != "fp32":
        precision = PrecisionMode.AMP
    sharding = Sharding.NONE
    if row.strategy in FULL_SHARDS:
        sharding = Sharding.ZERO3
    elif row.strategy in GRADIENT_SHARDS:
        sharding = Sharding.ZERO2
    elif row.strategy == "ddp":
        sharding = Sharding.DDP
    eight = row.optimizer["state_dtype"] == "int8"
    report = estimate_config(
        profile,
        RunConfig(
            batch_size=int(row.micro_batch),
            seq_len=row.sequence,
            precision=precision,
            optimizer=OptimizerKind.ADAM_8BIT if eight else OptimizerKind.ADAMW,
            gradient_checkpointing=row.checkpointing != "none",
            flash_attention=row.attention != "eager",
            world_size=row.ranks,
            sharding=sharding,
            offload_optimizer=row.parallel["cpu_offload"] in ("optimizer", "all"),
            offload_params=row.parallel["cpu_offload"] in ("params", "all"),
            frozen_fraction=frozen,
        ),
        gpu_memory=80 << 30,
        with_remediations=False,
    )
    return Reply(_counted(report.breakdown, row.metric), _stand_ins(row))


def _counted(parts: object, metric: str) -> int:
    total, context, fragments = (getattr(parts, name) for name in ("total", "cuda_context", "fragmentation"))
    if metric == "nvml_device":
        return int(total)
    if metric == "max_reserved":
        return int(total - context)
    if metric == "end_allocated":
        return int(total - context - fragments - getattr(parts, "activations"))  # noqa: B009 - a part like the others
    return int(total - context - fragments)


def _stand_ins(row: Row) -> tuple[str, ...]:
    said: tuple[str, ...] = ()
    if row.strategy.startswith("fsdp"):
        said += ("ZeRO for its strategy",)
    if row.compile:
        said += ("no torch.compile",)
    if row.checkpointing == "selective_op":
        said += ("full checkpointing",)
    if row.loss not in ("eager_fp32", "eager_bf16"):
        said += (f"no {row.loss}",)
    if row.optimizer["state_dtype"] in ("bf16", "fp16"):
        said += ("fp32 states",)
    return said
