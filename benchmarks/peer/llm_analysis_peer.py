"""llm-analysis: Megatron-style formulas of weights, states and activations, with ZeRO, tensor and pipeline parallel.

Its MLP has two matrices: a gated one is told as 3/2 of its width, which gives the right parameters. Adapters and
quantised bases it does not have.
"""

from __future__ import annotations

import logging
from typing import Any

from benchmarks.peer.row import FULL_SHARDS, GRADIENT_SHARDS, CannotError, Reply, Row

NAME = "llm-analysis"
PACKAGE = "llm-analysis"
INSTALL: tuple[str, ...] = ("--no-deps", "llm-analysis")
NEEDS: tuple[str, ...] = ("fire",)

_STATES = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}


def answer(row: Row) -> Reply:
    """(weight+op_state+grad+act)_memory_per_gpu; without the activations where the row is about the end of a step."""
    if row.method != "full":
        raise CannotError("adapters")
    if int(row.parallel["context"]) > 1:
        raise CannotError("context parallel")
    if row.parallel["cpu_offload"] != "none":
        raise CannotError("offload")
    if row.precision["compute"] == "fp32":
        raise CannotError("arithmetic in fp32")
    row.decoder()
    stand_ins: tuple[str, ...] = ()
    if row.precision["weights"] == "fp32":
        stand_ins += ("bf16 weights beside an fp32 copy",)
    if row.strategy not in ("none", "ddp", "zero2", "zero3"):
        stand_ins += ("ZeRO for its strategy",)
    if row.compile:
        stand_ins += ("no torch.compile",)
    if row.loss not in ("eager_fp32", "eager_bf16"):
        stand_ins += (f"no {row.loss}",)
    said = _run(row)
    parts = "weight+op_state+grad" if row.metric == "end_allocated" else "weight+op_state+grad+act"
    return Reply(int(said[f"({parts})_memory_per_gpu"]), stand_ins)


def _run(row: Row) -> dict[str, Any]:
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import DtypeConfig, GPUConfig, ParallelismConfig

    logging.disable(logging.CRITICAL)
    tensor = int(row.parallel["tensor"])
    analysis = LLMAnalysis(
        _model(row),
        # Room for every batch: with a real card it refuses instead of answering.
        GPUConfig("any", 1e6, 2000, 300, 1e-5, 312),
        DtypeConfig(),
        ParallelismConfig(
            tp_size=tensor, pp_size=int(row.parallel["pipeline"]), dp_size=row.ranks, sp_size=1
        ),
    )
    zero = DSZeRO.NONE
    if row.strategy in FULL_SHARDS:
        zero = DSZeRO.STAGE_3
    elif row.strategy in GRADIENT_SHARDS:
        zero = DSZeRO.STAGE_2
    # master_weights_dtype_bytes is also its gradients' size and counts as a state: with other_op_bytes it is put right.
    grads = _STATES.get(row.precision["grads"] or row.precision["weights"], 4)
    master = 4 if row.precision["master_weights"] or row.precision["weights"] == "fp32" else 0
    states = 2 * _STATES.get(row.optimizer["state_dtype"] or row.precision["weights"], 4)
    recompute = {
        "full": ActivationRecomputation.FULL,
        "selective_op": ActivationRecomputation.SELECTIVE,
    }.get(row.checkpointing, ActivationRecomputation.NONE)
    answer = analysis.training(
        batch_size_per_gpu=int(row.micro_batch),
        gradient_accumulation_steps=1,
        seq_len=row.sequence,
        activation_recomputation=recompute,
        ds_zero=zero,
        master_weights_dtype_bytes=grads,
        other_op_bytes=states + master - grads,
        flash_attn=row.attention != "eager",
        mlp_gated_linear_units=row.gated,
    )
    assert isinstance(answer, dict)
    return answer


def _model(row: Row) -> Any:
    from llm_analysis.config import ModelConfig

    hidden = row.dimension("hidden_size")
    inner = row.dimension("intermediate_size", default=4 * hidden)
    inner = inner * 3 // 2 if row.gated else inner
    heads = row.dimension("num_attention_heads")
    return ModelConfig(
        name=row.id,
        num_layers=row.dimension("num_hidden_layers"),
        n_head=heads,
        hidden_dim=hidden,
        vocab_size=row.dimension("vocab_size"),
        max_seq_len=max(row.sequence, row.dimension("max_position_embeddings", default=0)),
        num_key_value_heads=row.dimension("num_key_value_heads", "num_kv_heads", default=heads),
        ffn_embed_dim=inner,
        expansion_ratio=inner / hidden,
        moe_num_experts=row.dimension("num_local_experts", "num_experts", default=1),
        moe_top_k=row.dimension("num_experts_per_tok", default=1),
    )
