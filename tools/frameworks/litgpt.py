"""LitGPT: its GPT class under the names of transformers' families, with and without LoRA, and its scripts' losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tools.frameworks.recordings import Loss, Recording
from tools.frameworks.trees import module

STAND_INS: tuple[str, ...] = ()
BARE: tuple[str, ...] = ()
#: Chunks of the head in the finetune scripts. Theirs are of 128 tokens: four at the 512 tokens of the config hub.
_CHUNKS = 4
#: Pieces in which the loss of whole logits is taken. Theirs are of 128 rows; how many changes no sum.
_PIECES = 8

_LLAMA = {
    "rotary_percentage": 1.0,
    "parallel_residual": False,
    "bias": False,
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
}
_GEMMA = {**_LLAMA, "scale_embeddings": True, "mlp_class_name": "GemmaMLP", "gelu_approximate": "tanh"}
_CONFIGS: dict[str, dict[str, Any]] = {
    # mistral and phi3 are written as llama; gemma2 is not there before July 2024
    "llama": _LLAMA,
    "gemma": _GEMMA,
    "gemma2": {
        **_GEMMA,
        "attention_scores_scalar": 256,
        "attention_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "post_attention_norm": True,
        "post_mlp_norm": True,
    },
    "falcon": {"rotary_percentage": 1.0, "bias": False},
    "gpt_neox": {},
    "phi": {"shared_attention_norm": True, "lm_head_bias": True, "gelu_approximate": "tanh"},
}
_HEADS = {
    "llama": ("equal", "grouped"),
    "gemma": ("equal", "single"),
    "gemma2": ("grouped",),
    "falcon": ("single", "grouped"),
    "gpt_neox": ("equal",),
    "phi": ("equal",),
}
_PARTS = ("query", "key", "value", "projection", "mlp", "head")
#: What the config hub adapts: query and value, or everything; and what jobs call that.
TARGETS: dict[str, tuple[str, ...]] = {"qv": ("query", "value"), "all": _PARTS}
_NAMES = {
    "qv": ["q_proj", "v_proj"],
    "all": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"],
}

FAMILIES = tuple(_CONFIGS)


def recordings(family: str) -> Iterator[Recording]:
    """All ways: training of everything, and LoRA on what the config hub adapts."""
    full = Loss("full_finetune_ce", _finetune_full, "lm_head")
    pretrain = Loss("pretrain_ce", _pretrain, "lm_head")
    whole = Loss("whole_ce", _forward_and_loss, "lm_head")
    benchmark = Loss("eager_bf16", _benchmark, "lm_head")
    chunked = Loss("chunked_ce", _finetune_lora, "transformer.ln_f")
    usual = family in ("llama", "gpt_neox", "phi")
    precisions = ("bf16", "fp32-autocast", "fp32") if family == "llama" else ("bf16",)
    for heads in _HEADS[family]:
        ways = partial(
            Recording,
            layers="transformer.h",
            heads=heads,
            # gemma2's scores are capped by operators of their own, whatever a job asks for
            attention="sdpa",
            hidden=family not in ("falcon", "gpt_neox", "phi"),
        )
        for precision in precisions:
            losses = (
                (full, pretrain, *((whole, benchmark) if usual else (benchmark,)))
                if precision == "bf16"
                else (pretrain,)
            )
            yield ways(partial(_build, family, None), losses=losses, precision=precision)
        for targets, names in _NAMES.items():
            lora = {"targets": names, "dropout": True}
            yield ways(partial(_build, family, targets), losses=(chunked,), lora=lora)


def _build(family: str, targets: str | None, dimensions: Mapping[str, int]) -> Any:
    settings = {
        "block_size": dimensions["positions"],
        "vocab_size": dimensions["vocab"],
        "padded_vocab_size": dimensions["vocab"],
        "n_layer": dimensions["layers"],
        "n_head": dimensions["heads"],
        "head_size": dimensions["head_dim"],
        "n_embd": dimensions["hidden"],
        "n_query_groups": dimensions["kv_heads"],
        "intermediate_size": dimensions["intermediate"],
        **_CONFIGS[family],
    }
    if family in ("gpt_neox", "phi"):
        settings["rotary_percentage"] = (dimensions["rotary"] + 0.5) / dimensions["head_dim"]
    if family == "falcon":
        # the old architecture, whose keys are those of one head, has one norm; the new one has two
        settings["shared_attention_norm"] = dimensions["kv_heads"] == 1
    if targets is None:
        return module("litgpt.model").GPT(module("litgpt.config").Config(**settings))
    lora = module("litgpt.lora")
    adapted = {f"lora_{part}": part in TARGETS[targets] for part in _PARTS}
    net = lora.GPT(
        lora.Config(**settings, **adapted, lora_r=dimensions["rank"], lora_alpha=16, lora_dropout=0.05)
    )
    return _with_longest(net, dimensions["s"])


def _with_longest(net: Any, length: int) -> Any:
    """finetune/lora.py sets the longest sample's length after Fabric has cast the model: its rotary table is made anew,
    and stays fp32."""
    import torch

    net.to(torch.bfloat16)
    net.max_seq_length = length
    moves = net.to

    def only_moves(target: Any) -> Any:
        return net if isinstance(target, torch.dtype) else moves(target)

    net.to = only_moves
    return net


def _to_fp32(output: Any) -> Any:
    """What Fabric does to what the model returns (bf16-true)."""
    from lightning.fabric.plugins.precision import HalfPrecision

    return HalfPrecision("bf16-true").convert_output(output)


def _chunk(batch: Mapping[str, Any], chunks: int) -> int:
    return int(batch["input_ids"].shape[1]) // chunks


def _finetune_lora(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """finetune/lora.py: the head runs in chunks, the list of logits stays in the loop's frame."""
    del dimensions
    logits = net(batch["input_ids"], lm_head_chunk_size=_chunk(batch, _CHUNKS))
    logits = _to_fp32(logits)
    logits[-1] = logits[-1][..., :-1, :]
    loss = module("litgpt.utils").chunked_cross_entropy(logits, batch["labels"][..., 1:])
    return {"loss": loss, **{f"logits.{number}": each for number, each in enumerate(logits)}}


def _finetune_full(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """finetune/full.py: whole logits, the loss in pieces of the shifted ones."""
    logits = net(batch["input_ids"])
    logits = _to_fp32(logits)
    rows = dimensions["b"] * dimensions["s"]
    loss = module("litgpt.utils").chunked_cross_entropy(
        logits[..., :-1, :], batch["labels"][..., 1:], chunk_size=rows // _PIECES
    )
    return {"loss": loss, "logits": logits}


def _pretrain(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """pretrain.py: whole logits, targets already shifted."""
    logits = net(batch["input_ids"])
    logits = _to_fp32(logits)
    rows = dimensions["b"] * dimensions["s"]
    loss = module("litgpt.utils").chunked_cross_entropy(logits, batch["labels"], chunk_size=rows // _PIECES)
    return {"loss": loss, "logits": logits}


def _forward_and_loss(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """extensions/thunder/pretrain.py: the same in a function, without pieces, so that nothing stays bound."""
    del dimensions

    def forward_and_loss(ids: Any, targets: Any) -> Any:
        logits = net(ids)
        logits = _to_fp32(logits)
        return module("litgpt.utils").chunked_cross_entropy(logits, targets, chunk_size=0)

    return {"loss": forward_and_loss(batch["input_ids"], batch["labels"])}


def _benchmark(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """lightning-thunder's benchmark_litgpt.py: no Fabric, the loss of the logits as they are."""
    import torch

    del dimensions
    logits = net(batch["input_ids"])
    logits = logits.reshape(-1, logits.size(-1))
    targets = batch["labels"].reshape(-1)
    loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-1)
    return {"loss": loss, "logits": logits}
