"""Which kernel scaled_dot_product_attention takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.errors import UsageError
from oomph.predict.engine.scope import Scope

FLASH = "aten._scaled_dot_product_flash_attention"
_EFFICIENT = "aten._scaled_dot_product_efficient_attention"


def chosen_kernel(scope: Scope, packet: str, arguments: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The attention kernel that scaled_dot_product_attention takes, and its arguments: flash needs compute capability
    8.0, and the memory-efficient kernel takes no grouped heads (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
    Raises UsageError for what would run as ordinary operators, or not at all."""
    old = scope.gpu is not None and tuple(scope.gpu.capability) < (8, 0)
    if packet != FLASH or not (old or scope.efficient):
        return packet, arguments
    query, key = (scope.shape(each["t"]) for each in arguments[:2])
    if query[1] != key[1]:
        name = scope.gpu.name if scope.gpu is not None else ""
        raise UsageError(
            f"unsupported: grouped attention on {name}, which has no kernel for it and runs as ordinary operators; "
            "`oomph trace` runs the training script itself."
            if old
            else "unsupported: the memory-efficient kernel takes no grouped heads, and PyTorch fails with it alone; "
            "attention sdpa or flash_attention_2 takes them."
        )
    dropout, causal = [*arguments[3:5], 0.0, False][:2]
    return _EFFICIENT, [*arguments[:3], None, True, dropout, causal]
