"""The implementation of attention: whether scores of every pair of tokens are kept."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument


class Attention(Kind):
    """eager, sdpa, flash and the like."""

    name = "attention"
    order = 23
    keys = (
        argument("attn_implementation", "attention_implementation", "attention", "flash_attention",
                 "use_flash_attention",
                 "use_flash_attention_2", "flash_attn", "xformers_attention", "sdp_attention", "attn", "use_cache",
                 "output_attentions", "enable_xformers_memory_efficient_attention"),
        r"model\.(?:attn_implementation|use_cache|sliding_window)",
        r"versions\.(?:flash-attn|xformers)",
        r"environment\.(?:FLASH_ATTENTION|XFORMERS|NVTE_).*",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Eager keeps heads x length x length per layer; the others a number per row."""
        del situation
        if change.key.endswith("use_cache"):
            return Judged(
                "with the cache on, every layer's keys and values live until forward has returned",
                Suspicion.POSSIBLE,
                phases=("forward", "eval", "generate"),
                weight=3.0,
            )
        eager = [
            str(value).lower() in ("eager", "math", "false", "none")
            for value in (change.before, change.after)
        ]
        direction = (
            int(eager[1]) - int(eager[0]) if change.before is not None and change.after is not None else 0
        )
        return Judged(
            "eager attention keeps scores of every pair of tokens (batch x heads x length x length in each "
            "layer); flash and "
            "memory-efficient kernels keep a number per row, and SDPA chooses by mask, type and GPU",
            Suspicion.LIKELY if direction else Suspicion.POSSIBLE,
            direction=direction,
            phases=("forward", "backward"),
            parts=("forward.kept",),
            sources=(
                "pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
            ),
            weight=7.0 if direction else 4.0,
        )
