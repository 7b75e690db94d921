"""The model families that recipes are made for: a real class of transformers for any dimensions.

Every dimension of a config is set from the recipe's dimensions and nothing is left to a default that would depend on
one of them. `transformers` is imported when a model is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: What the names in expressions mean.
MEANINGS = {
    "b": "sequences in a batch",
    "s": "tokens in a sequence",
    "layers": "layers",
    "hidden": "width of the model",
    "intermediate": "width of the feed-forward network",
    "heads": "attention heads",
    "kv_heads": "heads of keys and values",
    "head_dim": "width of a head",
    "vocab": "words of the vocabulary",
    "positions": "positions that have a learned embedding",
    "rank": "rank of the adapters (LoRA)",
    "sms": "multiprocessors of the GPU",
    "sm_threads": "threads that a multiprocessor holds",
    "capability": "compute capability of the GPU, 10 * major + minor",
    "blas_workspace": "bytes of cuBLAS's workspace on this GPU",
}
#: The dimensions that the GPU has.
GPU_NAMES = ("sms", "sm_threads", "capability", "blas_workspace")

Dimensions = Mapping[str, int]
#: Wider heads, and those of other widths, are computed by other kernels. A sequence of one token needs no mask and is
#: contiguous in more ways; configs set no more positions than this.
_LIMITS = {"head_dim": (8, 256, 8), "s": (2, 1 << 20, 1)}
#: Shared memory of smaller GPUs is too small for flash attention's backward (sdp_utils.cpp, 192 < head size <= 224).
REFUSED = {
    "above(head_dim, 192, 1)*above(225, head_dim, 1)*above(capability, 80, 1)": (
        "heads of 200 to 224 run another kernel on other GPUs than those of compute capability 8.0"
    )
}


@dataclass(frozen=True)
class Family:
    """One family. `class_name` and `config_name` are transformers' own; `config` gives the config's fields for
    dimensions. `names` are what sizes can be made of: where a dimension follows from others (gpt2's head_dim), it is
    left out. `heads` are the relations of kv_heads to heads that it is made for, `tied` whether the output layer may
    share the embedding's weight. `targets` are the modules that LoRA adapts.
    """

    name: str
    class_name: str
    config_name: str
    config: Callable[[Dimensions], dict[str, Any]]
    names: tuple[str, ...]
    heads: tuple[str, ...] = ("grouped", "equal")
    tied: tuple[bool, ...] = (False,)
    attention: str = "sdpa"
    targets: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int, int]] = field(default_factory=lambda: dict(_LIMITS))

    def refused(self) -> dict[str, str]:
        """Expressions that must be 0, each with what is the matter when it is not."""
        result = dict(REFUSED)
        if "hidden" not in self.names:
            result["hidden - heads*head_dim"] = "the width of these models is heads * head_dim"
        if "positions" in self.names:
            result["above(s, positions, 1)"] = "a sequence is longer than the positions that are learned"
        return result


_GATED = ("b", "s", "layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "rank")
_ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def _common(dimensions: Dimensions) -> dict[str, Any]:
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


def _with_head_dim(dimensions: Dimensions) -> dict[str, Any]:
    return _common(dimensions) | {"head_dim": dimensions["head_dim"]}


def _windowless(dimensions: Dimensions) -> dict[str, Any]:
    return _with_head_dim(dimensions) | {"sliding_window": None}


def _gpt2(dimensions: Dimensions) -> dict[str, Any]:
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


_NO_HEAD_DIM = tuple(each for each in _GATED if each != "hidden")
_LIST = (
    Family(
        "llama",
        "LlamaForCausalLM",
        "LlamaConfig",
        _with_head_dim,
        _GATED,
        tied=(False, True),
        targets=_ALL_LINEAR,
    ),
    Family(
        "mistral",
        "MistralForCausalLM",
        "MistralConfig",
        _windowless,
        _GATED,
        ("grouped",),
        targets=_ALL_LINEAR,
    ),
    Family(
        "qwen2",
        "Qwen2ForCausalLM",
        "Qwen2Config",
        _common,
        _NO_HEAD_DIM,
        ("grouped",),
        tied=(False, True),
        targets=_ALL_LINEAR,
    ),
    Family(
        "qwen3",
        "Qwen3ForCausalLM",
        "Qwen3Config",
        _with_head_dim,
        _GATED,
        ("grouped",),
        tied=(False, True),
        targets=_ALL_LINEAR,
    ),
    Family(
        "gemma",
        "GemmaForCausalLM",
        "GemmaConfig",
        _with_head_dim,
        _GATED,
        ("single", "equal"),
        tied=(True,),
        targets=_ALL_LINEAR,
    ),
    Family(
        "phi",
        "PhiForCausalLM",
        "PhiConfig",
        _common,
        _NO_HEAD_DIM,
        ("equal",),
        targets=("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"),
    ),
    Family(
        "phi3",
        "Phi3ForCausalLM",
        "Phi3Config",
        lambda dimensions: (
            _common(dimensions) | {"pad_token_id": 0, "original_max_position_embeddings": 1 << 20}
        ),
        _NO_HEAD_DIM,
        ("equal", "grouped"),
        targets=("qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
    ),
    Family(
        "gpt2",
        "GPT2LMHeadModel",
        "GPT2Config",
        _gpt2,
        ("b", "s", "layers", "intermediate", "heads", "head_dim", "vocab", "positions", "rank"),
        ("equal",),
        tied=(True,),
        targets=("c_attn", "c_proj", "c_fc"),
    ),
)
FAMILIES: Mapping[str, Family] = {family.name: family for family in _LIST}


def model(family: Family, dimensions: Dimensions, tied: bool, attention: str) -> Any:
    """A model of the family on the CPU, untrained. Warnings of the library about odd dimensions are its own."""
    import transformers

    config = getattr(transformers, family.config_name)(
        **family.config(dimensions),
        tie_word_embeddings=tied,
        attn_implementation=attention,
    )
    return getattr(transformers, family.class_name)(config)
