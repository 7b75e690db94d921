"""Fields of transformers' configs for dimensions. Nothing is left to a default that depends on one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Dimensions = Mapping[str, int]


def common(dimensions: Dimensions) -> dict[str, Any]:
    """What most decoders call their dimensions."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "num_key_value_heads": dimensions["kv_heads"],
        "max_position_embeddings": 1 << 20,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }


def with_head_dim(dimensions: Dimensions) -> dict[str, Any]:
    """`common`, and heads of a width of their own."""
    return common(dimensions) | {"head_dim": dimensions["head_dim"]}


def also(**fields: Any) -> Callable[[Dimensions], dict[str, Any]]:
    """`common` with further fields."""
    return lambda dimensions: common(dimensions) | fields


def partial(dimensions: Dimensions) -> dict[str, Any]:
    """Only some of a head's dimensions turn with the position."""
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": dimensions["rotary"] / dimensions["head_dim"],
    }
    return common(dimensions) | {"rope_parameters": rope}


def gpt2(dimensions: Dimensions) -> dict[str, Any]:
    """GPT-2's names."""
    return {
        "vocab_size": dimensions["vocab"],
        "n_embd": dimensions["hidden"],
        "n_inner": dimensions["intermediate"],
        "n_layer": dimensions["layers"],
        "n_head": dimensions["heads"],
        "n_positions": dimensions["positions"],
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def bigcode(dimensions: Dimensions) -> dict[str, Any]:
    """GPT-2's names; one head of keys and values, or all."""
    return gpt2(dimensions) | {"multi_query": dimensions["kv_heads"] == 1}


def falcon(dimensions: Dimensions) -> dict[str, Any]:
    """As falcon-7b with one head of keys and values, as falcon-40b with some."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "ffn_hidden_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "num_kv_heads": dimensions["kv_heads"],
        "multi_query": True,
        "new_decoder_architecture": dimensions["kv_heads"] != 1,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "max_position_embeddings": 1 << 20,
    }


def opt(dimensions: Dimensions) -> dict[str, Any]:
    """OPT's names."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "word_embed_proj_dim": dimensions["hidden"],
        "ffn_dim": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "max_position_embeddings": dimensions["positions"],
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def bloom(dimensions: Dimensions) -> dict[str, Any]:
    """Bloom's names; its feed-forward network is four times as wide as the model."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "n_layer": dimensions["layers"],
        "n_head": dimensions["heads"],
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def experts(
    count: str, width: str = "", base: Callable[[Dimensions], dict[str, Any]] = common, **fields: str
) -> Callable[[Dimensions], dict[str, Any]]:
    """Layers of experts: the config's names for their number and their width, and further names for dimensions."""

    def config(dimensions: Dimensions) -> dict[str, Any]:
        names = {
            count: "experts",
            "num_experts_per_tok": "top_k",
            **({width: "expert_intermediate"} if width else {}),
        }
        return base(dimensions) | {name: dimensions[value] for name, value in {**names, **fields}.items()}

    return config


def gpt_oss(dimensions: Dimensions) -> dict[str, Any]:
    """Experts of the width that dense layers would have; layers with a window and layers without take turns."""
    return experts("num_local_experts", base=with_head_dim)(dimensions) | {
        "num_hidden_layers": 2 * dimensions["layers"],
        "layer_types": ["sliding_attention", "full_attention"] * dimensions["layers"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0},
    }


def latent(dimensions: Dimensions) -> dict[str, Any]:
    """DeepSeek's: as many layers without experts as with them; some experts are for all tokens."""
    names = {
        "qk_nope_head_dim": "nope_dim",
        "qk_rope_head_dim": "rope_dim",
        "v_head_dim": "v_dim",
        "q_lora_rank": "q_rank",
        "kv_lora_rank": "kv_rank",
        "n_routed_experts": "experts",
        "num_experts_per_tok": "top_k",
        "moe_intermediate_size": "expert_intermediate",
        "n_group": "router_groups",
        "topk_group": "router_kept",
    }
    return common(dimensions) | {
        **{name: dimensions[value] for name, value in names.items()},
        "num_hidden_layers": 2 * dimensions["layers"],
        "first_k_dense_replace": dimensions["layers"],
        "n_shared_experts": dimensions["shared_intermediate"] // dimensions["expert_intermediate"],
    }


def encoder(dimensions: Dimensions) -> dict[str, Any]:
    """What BERT and its like call their dimensions."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "max_position_embeddings": dimensions["positions"],
        "pad_token_id": 1,
    }


def distilbert(dimensions: Dimensions) -> dict[str, Any]:
    """DistilBERT's names."""
    return {
        "vocab_size": dimensions["vocab"],
        "dim": dimensions["hidden"],
        "hidden_dim": dimensions["intermediate"],
        "n_layers": dimensions["layers"],
        "n_heads": dimensions["heads"],
        "max_position_embeddings": dimensions["positions"],
    }


def modernbert(dimensions: Dimensions) -> dict[str, Any]:
    """The window is wider than any sequence."""
    return encoder(dimensions) | {
        "max_position_embeddings": 1 << 20,
        "local_attention": 1 << 19,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "cls_token_id": 0,
        "sep_token_id": 0,
    }


def vit(dimensions: Dimensions) -> dict[str, Any]:
    """What ViT calls its dimensions."""
    fields = encoder(dimensions) | {"image_size": dimensions["image"], "patch_size": dimensions["patch"]}
    return {
        name: value
        for name, value in fields.items()
        if name not in ("vocab_size", "max_position_embeddings", "pad_token_id")
    }
