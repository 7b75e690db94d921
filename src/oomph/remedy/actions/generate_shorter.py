"""Shorter or fewer generated sequences."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.words import must_free


class GenerateShorter(Action):
    """max_new_tokens, num_beams."""

    code = "generate-shorter"
    title = "Generate shorter or fewer sequences at a time"

    def applies(self, case: Case) -> bool:
        return case.phase in (Phase.GENERATE, Phase.UNKNOWN)

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} The key-value cache grows with prompts x beams x (prompt + new tokens) in "
            "every layer, and growing it copies it. Limit the new tokens first; without a limit one sample "
            "that never ends fills the card."
        )
        return self.make(
            text,
            "model.generate(**inputs, max_new_tokens=256, num_beams=1)",
            outcomes=(("If it still fails", "generate for fewer prompts at a time"),),
        )
