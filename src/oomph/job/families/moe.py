"""Mixtures of experts with ordinary attention: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE, gpt-oss."""

from __future__ import annotations

from collections.abc import Callable

from oomph.job.families.architecture import Kind
from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import Biases, attention, gated_mlp, output
from oomph.job.families.decoder import dimensions as decoder_dimensions

__all__ = ["DEFAULTS", "Sparse", "build", "dimensions", "experts", "runs"]

DEFAULTS: dict[str, dict[str, object]] = {
    "gpt_oss": {
        "num_hidden_layers": 36,
        "num_local_experts": 128,
        "vocab_size": 201088,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "head_dim": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
        "num_experts_per_tok": 4,
        "attention_bias": True,
    },
    "mixtral": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "num_experts_per_tok": 2,
        "num_local_experts": 8,
    },
    "olmoe": {
        "vocab_size": 50304,
        "hidden_size": 2048,
        "intermediate_size": 2048,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "num_experts_per_tok": 8,
        "num_experts": 64,
    },
    "qwen2_moe": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "num_experts_per_tok": 4,
        "num_experts": 60,
        "qkv_bias": True,
    },
    "qwen3_moe": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 768,
        "num_experts_per_tok": 8,
        "num_experts": 128,
    },
}


def dimensions(read: Reader) -> dict[str, int]:
    """The usual ones, and of the experts: how many (`experts`), how many of them a token goes to (`top_k`), their
    width (`moe_intermediate`), that of the expert for all tokens (`shared_intermediate`), and how many layers have
    experts (`sparse_layers`). `intermediate` is the width in layers without."""
    dims = decoder_dimensions(read)
    dims["experts"] = read.number("num_local_experts", "num_experts")
    dims["top_k"] = read.number("num_experts_per_tok")
    dims["moe_intermediate"] = read.optional("moe_intermediate_size") or dims["intermediate"]
    dims["shared_intermediate"] = read.optional("shared_expert_intermediate_size") or 0
    dims["sparse_layers"] = len(_sparse(read, dims["layers"]))
    return dims


def _sparse(read: Reader, layers: int) -> list[int]:
    """The layers that have experts: Qwen2MoeDecoderLayer and Qwen3MoeDecoderLayer."""
    step = read.optional("decoder_sparse_step") or 1
    dense = set(read.numbers("mlp_only_layers"))
    return [number for number in range(layers) if number not in dense and (number + 1) % step == 0]


def runs(numbers: list[int]) -> list[range]:
    """The numbers, in rising order, as ranges of consecutive ones; as one range where their distance is the same."""
    if len(numbers) > 1:
        step = numbers[1] - numbers[0]
        whole = range(numbers[0], numbers[-1] + 1, step)
        if list(whole) == numbers:
            return [whole]
    result: list[range] = []
    for number in numbers:
        if result and result[-1].stop == number:
            result[-1] = range(result[-1].start, number + 1)
        else:
            result.append(range(number, number + 1))
    return result


def experts(
    parts: Parts, read: Reader, dims: dict[str, int], name: str, linears: tuple[str, str, str]
) -> None:
    """The experts of one layer: as two tensors that hold all of them (transformers 5), or as a module each with three
    linears (before), which `linears` names (gate, up, down)."""
    count, hidden, width = dims["experts"], dims["hidden"], dims["moe_intermediate"]
    if read.major >= 5:
        parts.add(f"{name}.experts.gate_up_proj", count, 2 * width, hidden)
        parts.add(f"{name}.experts.down_proj", count, hidden, width)
        return
    for number in range(count):
        for each in linears:
            downwards = each in ("down_proj", "w2")
            inputs, outputs = (width, hidden) if downwards else (hidden, width)
            parts.linear(f"{name}.experts.{number}.{each}", inputs, outputs)


_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def _gate(parts: Parts, read: Reader, dims: dict[str, int], name: str) -> None:
    """The router: a bare tensor in transformers 5, a linear before."""
    kind: Kind = "other" if read.major >= 5 else "linear"
    parts.add(f"{name}.gate.weight", dims["experts"], dims["hidden"], kind=kind)


def _mixtral(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    name = "mlp" if read.major >= 5 else "block_sparse_moe"
    _gate(parts, read, dims, name)
    experts(parts, read, dims, name, ("w1", "w2", "w3"))


def _qwen2(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    _gate(parts, read, dims, "mlp")
    experts(parts, read, dims, "mlp", _PROJECTIONS)
    if dims["shared_intermediate"]:
        gated_mlp(parts, dims["hidden"], dims["shared_intermediate"], name="mlp.shared_expert")
        parts.linear("mlp.shared_expert_gate", dims["hidden"], 1)


def _qwen3(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    if read.major >= 5:
        experts(parts, read, dims, "mlp", _PROJECTIONS)
        _gate(parts, read, dims, "mlp")
        return
    _gate(parts, read, dims, "mlp")
    experts(parts, read, dims, "mlp", _PROJECTIONS)


def _gpt_oss(parts: Parts, _read: Reader, dims: dict[str, int]) -> None:
    count, hidden, width = dims["experts"], dims["hidden"], dims["moe_intermediate"]
    parts.add("mlp.router.weight", count, hidden)
    parts.add("mlp.router.bias", count)
    parts.add("mlp.experts.gate_up_proj", count, hidden, 2 * width)
    parts.add("mlp.experts.gate_up_proj_bias", count, 2 * width)
    parts.add("mlp.experts.down_proj", count, width, hidden)
    parts.add("mlp.experts.down_proj_bias", count, hidden)


Sparse = Callable[[Parts, Reader, dict[str, int]], None]
_SPARSE: dict[str, Sparse] = {
    "gpt_oss": _gpt_oss,
    "mixtral": _mixtral,
    "olmoe": _qwen2,
    "qwen2_moe": _qwen2,
    "qwen3_moe": _qwen3,
}


def _attention(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    family = read.model.family
    both = read.switch("attention_bias")
    biases = Biases(qkv=read.switch("qkv_bias")) if family == "qwen2_moe" else Biases(both, both)
    if family == "gpt_oss":
        parts.add("self_attn.sinks", dims["heads"])
    attention(parts, dims, biases)
    if family in ("qwen3_moe", "olmoe"):
        per_head = family == "qwen3_moe"
        parts.norm("self_attn.q_norm", dims["head_dim"] * (1 if per_head else dims["heads"]))
        parts.norm("self_attn.k_norm", dims["head_dim"] * (1 if per_head else dims["kv_heads"]))


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, hidden, every = Parts(), dims["hidden"], range(dims["layers"])
    sparse = _sparse(read, dims["layers"])
    dense = [number for number in every if number not in set(sparse)]
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], hidden)
        with parts.under("layers", every):
            _attention(parts, read, dims)
        for some in runs(sparse):
            with parts.under("layers", some):
                _SPARSE[read.model.family](parts, read, dims)
        for some in runs(dense):
            with parts.under("layers", some):
                gated_mlp(parts, hidden, dims["intermediate"])
        with parts.under("layers", every):
            parts.norm("input_layernorm", hidden)
            parts.norm("post_attention_layernorm", hidden)
        parts.norm("norm", hidden)
    output(parts, read, hidden, dims["vocab"])
    return parts
