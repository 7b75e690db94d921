"""Outputs of evaluation leave the card while it runs."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_TRAINER = (
    "eval_accumulation_steps=8,\n# and keep predictions instead of logits:\n"
    "def keep_predictions(logits, labels):\n    return logits.argmax(dim=-1)\n\n"
    "Trainer(..., preprocess_logits_for_metrics=keep_predictions)"
)
_PLAIN = "outputs.append(prediction.argmax(-1).cpu())   # instead of outputs.append(logits)"


class EvalAccumulation(Action):
    """eval_accumulation_steps, or .cpu() per batch."""

    code = "eval-accumulation"
    title = "Move evaluation outputs to the CPU as they come"

    def applies(self, case: Case) -> bool:
        return case.phase in (Phase.EVAL, Phase.GENERATE, Phase.UNKNOWN)

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        trainer = setup_of(case).dialect in ("transformers", "axolotl")
        how = (
            "The Trainer keeps all logits on the GPU until the evaluation ends, unless "
            "eval_accumulation_steps is set."
            if trainer
            else "Outputs that are kept in a list on the GPU and concatenated at the end grow with the evaluation set."
        )
        text = (
            f"{must_free(case)} {how} Logits of every token are the size of the vocabulary; the metric "
            "seldom needs more than the argmax."
        )
        return self.make(
            text,
            _TRAINER if trainer else _PLAIN,
            outcomes=(
                (
                    "If host memory grows instead",
                    "reduce each output to the numbers that the metric needs before keeping it",
                ),
                ("If the forward itself fails", "evaluate fewer samples at a time"),
            ),
        )
