"""DeepSpeed's `estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs`.

Parameters, gradients and Adam's states of mixed precision with an fp32 copy, for ZeRO-2 and ZeRO-3; no activations.
FSDP is told as the stage that shards the same.
"""

from __future__ import annotations

from benchmarks.peer.meta import model, parameters
from benchmarks.peer.row import FULL_SHARDS, GRADIENT_SHARDS, CannotError, Reply, Row

NAME = "DeepSpeed"
PACKAGE = "deepspeed"
INSTALL: tuple[str, ...] = ("--no-deps", "--no-build-isolation", "deepspeed")
NEEDS: tuple[str, ...] = (
    "wheel",
    "setuptools",
    "hjson",
    "py-cpuinfo",
    "einops",
    "msgpack",
    "pydantic",
    "ninja",
)
PER_NODE = 8


def answer(row: Row) -> Reply:
    """Bytes per GPU of the model states."""
    if row.method != "full":
        raise CannotError("adapters")
    if row.split:
        raise CannotError("tensor, context or pipeline parallel")
    per_node = min(row.ranks, PER_NODE)
    nodes = max(1, row.ranks // per_node)
    stand_ins: tuple[str, ...] = ("activations",)
    if not row.strategy.startswith("zero"):
        stand_ins += ("ZeRO for its strategy",)
    if row.precision["weights"] == row.precision["compute"] and not row.precision["master_weights"]:
        stand_ins += ("weights without an fp32 copy",)
    offload = row.parallel["cpu_offload"]
    total = parameters(row.config_path)
    if row.strategy in FULL_SHARDS:
        from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs

        largest = max(
            sum(each.numel() for each in module.parameters(recurse=False))
            for module in model(row.config_path, "fp32").modules()
        )
        _, need, _ = estimate_zero3_model_states_mem_needs(
            total,
            largest,
            per_node,
            nodes,
            cpu_offload=offload != "none",
            cpu_offload_params=offload in ("params", "all"),
        )
        return Reply(int(need), stand_ins)
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    if row.strategy not in GRADIENT_SHARDS:
        # Replicas hold everything: stage 2 with one rank.
        per_node = nodes = 1
    _, need = estimate_zero2_model_states_mem_needs(total, per_node, nodes, cpu_offload=offload != "none")
    return Reply(int(need), stand_ins)
