"""vramcalc: formulas for llama, mistral, qwen2, gemma and gemma2 on one GPU, full or with adapters on q, k, v and o."""

from __future__ import annotations

from benchmarks.peer.row import CannotError, Reply, Row

NAME = "vramcalc"
PACKAGE = "vramcalc"
INSTALL: tuple[str, ...] = ("--no-deps", "vramcalc")
NEEDS: tuple[str, ...] = ()

_OWN_TARGETS = {"q_proj", "k_proj", "v_proj", "o_proj"}


def answer(row: Row) -> Reply:
    """Its total; the persistent part where the row is about the end of a step; with its overhead for the card."""
    from vramcalc import UnsupportedModelError, estimate

    if row.method == "qlora":
        raise CannotError("a quantised base")
    if row.strategy not in ("none", "ddp") or row.split:
        raise CannotError("sharding")
    low = row.precision["weights"] != "fp32"
    compute = row.precision["compute"]
    stand_ins: tuple[str, ...] = ()
    if row.method == "lora" and set(row.lora["target_modules"]) != _OWN_TARGETS:
        stand_ins += ("adapters on q, k, v and o",)
    if row.loss not in ("eager_fp32", "eager_bf16"):
        stand_ins += (f"no {row.loss}",)
    if row.compile:
        stand_ins += ("no torch.compile",)
    if row.optimizer["state_dtype"] == "int8":
        stand_ins += ("states as the weights",)
    try:
        said = estimate(
            row.config,
            mode="train",
            dtype="fp32" if compute == "fp32" else "fp16" if compute == "fp16" else "bf16",
            batch=int(row.micro_batch),
            seq_len=row.sequence,
            lora_rank=int(row.lora["rank"]) if row.method == "lora" else None,
            grad_checkpoint=row.checkpointing != "none",
            precision="pure" if low else "amp",
            attn_impl={"eager": "eager", "flash_attention_2": "flash"}.get(row.attention, "sdpa"),
        )
    except UnsupportedModelError as error:
        raise CannotError(str(error).split(";")[0]) from error
    if row.metric == "end_allocated":
        return Reply(said.persistent, stand_ins)
    return Reply(said.total + (said.overhead if row.metric == "nvml_device" else 0), stand_ins)
