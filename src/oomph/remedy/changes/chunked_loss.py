"""A loss that never holds all logits at once."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job, LossName
from oomph.remedy.changes.base import Change, Effort
from oomph.remedy.changes.written import ON_TRAINER, dialect, written

_LINES = {
    "transformers": "use_liger_kernel=True,   # pip install liger-kernel",
    "axolotl": "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_fused_linear_cross_entropy: true",
    "llamafactory": "enable_liger_kernel: true",
    "torchtune": "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss",
    "torchtitan": '[compile]\nenable = true\ncomponents = ["loss"]',
    "megatron": "--cross-entropy-loss-fusion",
    "": "from torch.utils.checkpoint import checkpoint\n\ndef part(h, t):   # hidden states, targets\n"
    '    return F.cross_entropy(lm_head(h).float(), t, ignore_index=-100, reduction="sum")\n\n'
    "parts = zip(hidden.chunk(8), targets.chunk(8))\n"
    "losses = [checkpoint(part, h, t, use_reentrant=False) for h, t in parts]\n"
    "loss = sum(losses) / (targets != -100).sum()",
}
#: Families whose fused linear cross-entropy liger-kernel 0.5.9 has (monkey_patch.py; granite: other kernels only).
_LIGER = frozenset(
    [
        "llama",
        "mistral",
        "mixtral",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "qwen2",
        "qwen3",
        "phi3",
        "olmo2",
        "glm4",
        "qwen2_vl",
        "qwen2_5_vl",
        "llava",
    ]
)
_LESS = ("fused_linear_ce", "chunked_ce", "triton_ce", "loss_parallel")


@dataclass(frozen=True)
class ChunkedLoss(Change):
    """Another loss over the same logits."""

    loss: LossName

    code = "chunked-loss"
    axis = "loss"
    numerics = "close"

    @property
    def title(self) -> str:
        """With its value."""
        return {
            "fused_linear_ce": "fused linear cross-entropy",
            "chunked_ce": "cross-entropy in chunks of tokens",
            "triton_ce": "compiled cross-entropy",
        }.get(self.loss, self.loss)

    def applies(self, job: Job) -> str | None:
        """Where the loss holds logits in fp32 now, and the framework has the other one."""
        if job.loss in _LESS:
            return f"The loss is {job.loss} already."
        if job.batch.sequence is None:
            return "The job has no text."
        if self.loss == "fused_linear_ce" and job.model.family not in _LIGER:
            return f"liger-kernel has no fused linear cross-entropy for {job.model.family or 'this family'}."
        return None

    def apply(self, job: Job) -> Job:
        """The loss."""
        return replace(job, loss=self.loss)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _LINES)

    @property
    def effort(self) -> Effort:
        """A flag where the framework has it; code where the loop computes its own loss."""
        return "code" if self.loss == "chunked_ce" else "flag"

    def verify(self, job: Job) -> str:
        """The peak at the end of forward."""
        del job
        return (
            "The first losses agree to about three digits, and the end of forward falls by the fp32 logits."
        )


def options(job: Job) -> tuple[Change, ...]:
    """The one that the framework has."""
    name = dialect(job)
    if name in ON_TRAINER:
        return (ChunkedLoss("fused_linear_ce"),)
    if name == "torchtitan":
        return (ChunkedLoss("triton_ce"),)
    return (ChunkedLoss("chunked_ce"),)
