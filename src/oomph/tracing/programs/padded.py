"""Programs of padded batches: the attention mask that a collator makes has a zero, and attention gets a mask.

One token is padded, the least that makes a difference. What is computed on whole sequences does not depend on how many
are; flash_attn's is done without the padded tokens, so that one of them needs the most memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oomph.tracing.programs.families import Family
from oomph.tracing.programs.forward import Studio, Subject
from oomph.tracing.programs.watch import Run
from oomph.tracing.programs.ways import Way

_MASK = "attention_mask"


class PaddedStudio(Studio):
    """A studio in which the last token of the first sequence is padding."""

    def forward(self, subject: Subject, dimensions: Mapping[str, int]) -> Run:
        """As `Studio.forward`."""

        def batch(its: Mapping[str, int]) -> Mapping[str, Any]:
            made = subject.batch(its)
            made[_MASK][0, -1] = 0
            return made

        return super().forward(replace(subject, batch=batch), dimensions)


def is_wanted(family: Family, way: Way) -> bool:
    """Whether a way runs otherwise with padding. A decoder's eager attention has a mask with and without, and so has
    attention with a window in a long sequence, where all layers have one. Images are not padded."""
    if family.images or (way.window and not family.kinds):
        return False
    return way.attention != "eager" or way.task != "causal_lm"
