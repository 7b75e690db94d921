"""Keys and values that a model returns while it trains.

Classes turn the cache off under gradient checkpoints, except GPTBigCode's before transformers 4.53
(models/gpt_bigcode/modeling_gpt_bigcode.py): its blocks' keys and values are part of the output until the caller lets
that go. They are views of the fused projection's result, which lives as long.
"""

from __future__ import annotations

from oomph.predict.compose.setup import Setup


def present_bytes(setup: Setup) -> int:
    """What a recomputed layer leaves of its keys and values (0: nothing, where the code turns the cache off)."""
    if not setup.code.caches_recomputed:
        return 0
    dims = setup.dims
    kv_heads = dims.get("kv_heads", dims["heads"])
    width = dims["hidden"] + 2 * kv_heads * dims["head_dim"]
    item = 4 if setup.widens or setup.precision == "fp32" else 2
    return dims["b"] * dims["s"] * width * item
