"""Diffusion transformers of diffusers: FLUX, Stable Diffusion 3, DiT. Their family is config.json's `_class_name`."""

from __future__ import annotations

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader

__all__ = ["DEFAULTS", "build", "dimensions", "timestep"]

_FLUX, _DIT, _SD3 = "FluxTransformer2DModel", "DiTTransformer2DModel", "SD3Transformer2DModel"
DEFAULTS: dict[str, dict[str, object]] = {
    _FLUX: {
        "patch_size": 1,
        "in_channels": 64,
        "num_layers": 19,
        "num_single_layers": 38,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "joint_attention_dim": 4096,
        "pooled_projection_dim": 768,
        "guidance_embeds": False,
    },
    _DIT: {
        "num_attention_heads": 16,
        "attention_head_dim": 72,
        "in_channels": 4,
        "num_layers": 28,
        "attention_bias": True,
        "sample_size": 32,
        "patch_size": 2,
        "num_embeds_ada_norm": 1000,
    },
    _SD3: {
        "sample_size": 128,
        "patch_size": 2,
        "in_channels": 16,
        "num_layers": 18,
        "attention_head_dim": 64,
        "num_attention_heads": 18,
        "joint_attention_dim": 4096,
        "caption_projection_dim": 1152,
        "pooled_projection_dim": 2048,
        "out_channels": 16,
        "pos_embed_max_size": 96,
        "dual_attention_layers": (),
        "qk_norm": None,
    },
}
#: Channels of the sine and cosine of a timestep (diffusers' embeddings.py).
_SINES = 256


def dimensions(read: Reader) -> dict[str, int]:
    """layers, hidden, intermediate, heads, kv_heads, head_dim, channels (in, and out), patch; FLUX's blocks that text
    and image share (`single_layers`) and widths of its text (`text`, `pooled`); DiT's `classes` and `patches`; SD3's
    `twice` (the first blocks, which attend twice) and `positions` of a side."""
    heads, head_dim = read.number("num_attention_heads"), read.number("attention_head_dim")
    channels = read.number("in_channels")
    dims = {
        "layers": read.number("num_layers", least=0),
        "hidden": heads * head_dim,
        "intermediate": 4 * heads * head_dim,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": head_dim,
        "channels": channels,
        "out_channels": read.optional("out_channels") or channels,
        "patch": read.number("patch_size"),
    }
    if read.model.family == _FLUX:
        dims["single_layers"] = read.number("num_single_layers", least=0)
        dims["text"], dims["pooled"] = (
            read.number("joint_attention_dim"),
            read.number("pooled_projection_dim"),
        )
    elif read.model.family == _SD3:
        dims.update(_sd3_dimensions(read, dims))
    else:
        dims["classes"] = read.number("num_embeds_ada_norm")
        dims["patches"] = (read.number("sample_size") // dims["patch"]) ** 2
    return dims


def _sd3_dimensions(read: Reader, dims: dict[str, int]) -> dict[str, int]:
    """Raises UsageError for what diffusers' class cannot be, or Stable Diffusion 3 is not."""
    twice, layers = read.numbers("dual_attention_layers"), dims["layers"]
    if sorted(twice) != list(range(len(twice))) or (layers and len(twice) >= layers):
        raise UsageError(
            f"unsupported: dual_attention_layers {twice} of {read.who} are not its first blocks; `oomph trace` "
            "measures it from code."
        )
    if read.number("caption_projection_dim") != dims["hidden"]:
        raise UsageError(
            f"caption_projection_dim of {read.who} is not num_attention_heads times attention_head_dim, "
            f"{dims['hidden']}."
        )
    if read.raw("qk_norm") not in (None, "rms_norm"):
        raise UsageError(
            f"unsupported: qk_norm {read.raw('qk_norm')!r} of {read.who}; only rms_norm or none is known."
        )
    return {
        "twice": len(twice),
        "text": read.number("joint_attention_dim"),
        "pooled": read.number("pooled_projection_dim"),
        "positions": read.number("pos_embed_max_size"),
    }


def timestep(parts: Parts, name: str, inputs: int, hidden: int) -> None:
    """diffusers' TimestepEmbedding, and its projection of pooled text."""
    parts.linear(f"{name}.linear_1", inputs, hidden, bias=True)
    parts.linear(f"{name}.linear_2", hidden, hidden, bias=True)


def _feed_forward(parts: Parts, name: str, dims: dict[str, int]) -> None:
    parts.linear(f"{name}.net.0.proj", dims["hidden"], dims["intermediate"], bias=True)
    parts.linear(f"{name}.net.2", dims["intermediate"], dims["hidden"], bias=True)


def _flux_attention(parts: Parts, dims: dict[str, int], both: bool) -> None:
    """FluxAttention; `both`: with projections of the text's own, and of what comes out."""
    hidden = dims["hidden"]
    parts.norm("attn.norm_q", dims["head_dim"])
    parts.norm("attn.norm_k", dims["head_dim"])
    for name in ("to_q", "to_k", "to_v", *(("to_out.0",) if both else ())):
        parts.linear(f"attn.{name}", hidden, hidden, bias=True)
    if both:
        parts.norm("attn.norm_added_q", dims["head_dim"])
        parts.norm("attn.norm_added_k", dims["head_dim"])
        for name in ("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"):
            parts.linear(f"attn.{name}", hidden, hidden, bias=True)


def _flux(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, wide = dims["hidden"], dims["intermediate"]
    with parts.under("time_text_embed"):
        timestep(parts, "timestep_embedder", _SINES, hidden)
        if read.switch("guidance_embeds"):
            timestep(parts, "guidance_embedder", _SINES, hidden)
        timestep(parts, "text_embedder", dims["pooled"], hidden)
    parts.linear("context_embedder", dims["text"], hidden, bias=True)
    parts.linear("x_embedder", dims["channels"], hidden, bias=True)
    with parts.under("transformer_blocks", range(dims["layers"])):
        parts.linear("norm1.linear", hidden, 6 * hidden, bias=True)
        parts.linear("norm1_context.linear", hidden, 6 * hidden, bias=True)
        _flux_attention(parts, dims, both=True)
        _feed_forward(parts, "ff", dims)
        _feed_forward(parts, "ff_context", dims)
    with parts.under("single_transformer_blocks", range(dims["single_layers"])):
        parts.linear("norm.linear", hidden, 3 * hidden, bias=True)
        parts.linear("proj_mlp", hidden, wide, bias=True)
        parts.linear("proj_out", hidden + wide, hidden, bias=True)
        _flux_attention(parts, dims, both=False)
    parts.linear("norm_out.linear", hidden, 2 * hidden, bias=True)
    parts.head("proj_out", hidden, dims["patch"] ** 2 * dims["out_channels"], tied=False, bias=True)


def _dit(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, bias = dims["hidden"], read.switch("attention_bias")
    parts.conv("pos_embed.proj", dims["channels"], hidden, (dims["patch"], dims["patch"]), bias=True)
    with parts.under("transformer_blocks", range(dims["layers"])):
        timestep(parts, "norm1.emb.timestep_embedder", _SINES, hidden)
        # one class more: none, for guidance without a classifier
        parts.embedding("norm1.emb.class_embedder.embedding_table", dims["classes"] + 1, hidden)
        parts.linear("norm1.linear", hidden, 6 * hidden, bias=True)
        for name in ("to_q", "to_k", "to_v"):
            parts.linear(f"attn1.{name}", hidden, hidden, bias=bias)
        parts.linear("attn1.to_out.0", hidden, hidden, bias=True)
        _feed_forward(parts, "ff", dims)
    parts.linear("proj_out_1", hidden, 2 * hidden, bias=True)
    parts.head("proj_out_2", hidden, dims["patch"] ** 2 * dims["out_channels"], tied=False, bias=True)


def _sd3(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, layers, twice = dims["hidden"], dims["layers"], dims["twice"]
    parts.conv("pos_embed.proj", dims["channels"], hidden, (dims["patch"], dims["patch"]), bias=True)
    with parts.under("time_text_embed"):
        timestep(parts, "timestep_embedder", _SINES, hidden)
        timestep(parts, "text_embedder", dims["pooled"], hidden)
    parts.linear("context_embedder", dims["text"], hidden, bias=True)
    normed = read.raw("qk_norm") is not None
    for blocks in (range(twice), range(twice, layers - 1), range(max(0, layers - 1), layers)):
        if len(blocks):
            with parts.under("transformer_blocks", blocks):
                _joint(parts, dims, normed, blocks.stop <= twice, blocks.stop == layers)
    parts.linear("norm_out.linear", hidden, 2 * hidden, bias=True)
    parts.head("proj_out", hidden, dims["patch"] ** 2 * dims["out_channels"], tied=False, bias=True)


def _joint(parts: Parts, dims: dict[str, int], normed: bool, twice: bool, last: bool) -> None:
    """JointTransformerBlock (attention.py). `twice`: with attention of the image alone; the last one makes no text."""
    hidden = dims["hidden"]
    parts.linear("norm1.linear", hidden, (9 if twice else 6) * hidden, bias=True)
    parts.linear("norm1_context.linear", hidden, (2 if last else 6) * hidden, bias=True)
    for name in ("attn", *(("attn2",) if twice else ())):
        with parts.under(name):
            if normed:
                parts.norm("norm_q", dims["head_dim"])
                parts.norm("norm_k", dims["head_dim"])
            both, out = name == "attn", () if last else ("to_add_out",)
            added = ("add_k_proj", "add_v_proj", "add_q_proj") if both else ()
            for each in ("to_q", "to_k", "to_v", *added, "to_out.0", *(out if both else ())):
                parts.linear(each, hidden, hidden, bias=True)
            if normed and both:
                parts.norm("norm_added_q", dims["head_dim"])
                parts.norm("norm_added_k", dims["head_dim"])
    _feed_forward(parts, "ff", dims)
    if not last:
        _feed_forward(parts, "ff_context", dims)


_BUILDERS = {_FLUX: _flux, _DIT: _dit, _SD3: _sd3}


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts = Parts()
    _BUILDERS[read.model.family](parts, read, dims)
    return parts
