"""A loss that never holds all logits at once."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free
from oomph.units import format_bytes

_ON = re.compile(
    r"liger|fused_linear|linear_cross_entropy|chunked_(?:cross|loss|output)|ChunkedOutput|cut_cross_entropy",
    re.IGNORECASE,
)
_SETTINGS = {
    "transformers": "use_liger_kernel=True,   # TrainingArguments; pip install liger-kernel",
    "axolotl": "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_fused_linear_cross_entropy: true",
    "torchtune": "loss=torchtune.modules.loss.LinearCrossEntropyLoss",
}
_PLAIN = (
    "from torch.utils.checkpoint import checkpoint\n\n"
    "# hidden states and targets, flattened over tokens\n"
    "def part(h, t):\n"
    "    logits = lm_head(h).float()\n"
    '    return F.cross_entropy(logits, t, ignore_index=-100, reduction="sum")\n\n'
    "parts = zip(hidden.chunk(8), targets.chunk(8))\n"
    "losses = [checkpoint(part, h, t, use_reentrant=False) for h, t in parts]\n"
    "loss = sum(losses) / (targets != -100).sum()"
)


class ChunkedLoss(Action):
    """Fused or chunked linear cross-entropy."""

    code = "chunked-loss"
    title = "Compute the loss in chunks of tokens"

    def applies(self, case: Case) -> bool:
        """Unless the traceback runs through such a loss already."""
        return case.frame_matching(_ON) is None

    def step(self, case: Case, finding: Finding) -> Step:
        setup = setup_of(case)
        size = finding.numbers.get("logits_bytes")
        whole = f" The whole logits are {format_bytes(size)} here." if size else _product(case)
        text = (
            f"{must_free(case)} The logits (tokens x vocabulary), their fp32 copy and their gradient are "
            "the largest tensors of the step, and a chunked or fused loss holds only a part of them at a "
            f"time.{whole} The result is the same up to rounding."
        )
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PLAIN),
            outcomes=(
                (
                    "If it still fails in the loss",
                    "use more chunks, or drop logits of tokens that have no label",
                ),
                (
                    "If it fails elsewhere now",
                    "the activations are next: smaller micro-batch, then checkpointing",
                ),
            ),
        )


def _product(case: Case) -> str:
    setup, vocabulary = setup_of(case), case.number("vocab_size")
    if not (setup.batch and setup.sequence and vocabulary):
        return ""
    size = setup.batch * setup.sequence * vocabulary * 4
    return (
        f" By the log's settings up to {setup.batch} x {setup.sequence:,} tokens x {vocabulary:,} entries "
        f"x 4 bytes = {format_bytes(size)} for one fp32 copy."
    )
