"""Attention that does not hold the scores of all pairs of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import AttentionName, Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.cards import capability
from oomph.remedy.changes.written import written

_LINES = {
    "transformers": 'AutoModelForCausalLM.from_pretrained(..., attn_implementation="{name}")',
    "trl": 'model_init_kwargs={"attn_implementation": "{name}"},   # SFTConfig',
    "axolotl": "{flag}: true",
    "llamafactory": "flash_attn: {short}",
    "megatron": "--attention-backend flash",
    "": "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
}
_FLAGS = {"sdpa": ("sdp_attention", "sdpa"), "flash_attention_2": ("flash_attention", "fa2")}
#: Kinds that hold a score per head and pair of tokens.
_WHOLE = ("eager", "sdpa_math")
_AMPERE = (8, 0)


@dataclass(frozen=True)
class Attention(Change):
    """Another implementation of attention."""

    name: AttentionName

    code = "attention"
    axis = "attention"
    numerics = "close"

    @property
    def title(self) -> str:
        """With its value."""
        return f"attention by {self.name}"

    def applies(self, job: Job) -> str | None:
        """Where the scores are held now."""
        if job.attention not in _WHOLE:
            return f"Attention by {job.attention} holds no scores of all pairs already."
        if self.name == "flash_attention_2":
            found = capability(job)
            if found is not None and found < _AMPERE:
                return f"FlashAttention-2 needs compute capability 8.0; {job.hardware.gpu} has {found[0]}.{found[1]}."
            if job.precision.compute not in ("bf16", "fp16"):
                return f"FlashAttention-2 computes in bf16 or fp16, not in {job.precision.compute}."
        return None

    def apply(self, job: Job) -> Job:
        """The implementation."""
        return replace(job, attention=self.name)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        flag, short = _FLAGS[self.name]
        return written(job, _LINES, name=self.name, flag=flag, short=short)

    def verify(self, job: Job) -> str:
        """What the model says."""
        del job
        return (
            f'model.config._attn_implementation is "{self.name}"; '
            "the peak no longer grows with the square of the length."
        )


def options(job: Job) -> tuple[Change, ...]:
    """SDPA needs nothing installed; FlashAttention-2 its package."""
    del job
    return (Attention("sdpa"), Attention("flash_attention_2"))
