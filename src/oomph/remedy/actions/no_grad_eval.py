"""Evaluate without gradients."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.words import must_free

#: Loops and decorators that switch gradients off themselves.
_OFF = re.compile(
    r"evaluation_loop|prediction_step|decorate_context|_contextlib\.py|inference_mode|no_grad|"
    r"lightning[\w/\\]*[/\\]loops[/\\]evaluation|generation[/\\]utils\.py"
)
#: What loops that switch gradients off write when they begin: the Trainer's banner, Lightning's bars.
_OFF_BY_WORDS = re.compile(r"\*{5} Running|(?:Validation|Testing|Sanity Checking)(?: DataLoader \d+)?:")
_PASTE = (
    "model.eval()\nwith torch.inference_mode():\n    for batch in eval_loader:\n        output = "
    "model(**batch)\n        results.append(output.logits.argmax(-1).cpu())   # numbers, not the "
    "output\nmodel.train()"
)


class NoGradEval(Action):
    """torch.inference_mode() around evaluation."""

    code = "no-grad-eval"
    title = "Evaluate under torch.inference_mode() and move results to the CPU"

    def applies(self, case: Case) -> bool:
        """In evaluation or generation, unless the traceback shows that gradients are off."""
        if case.phase not in (Phase.EVAL, Phase.GENERATE, Phase.UNKNOWN):
            return False
        said = case.phase_verdict.quote.text if case.phase_verdict.quote is not None else ""
        return case.frame_matching(_OFF) is None and _OFF_BY_WORDS.search(said) is None

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} {_known(case)} With gradients on "
            "every evaluated sample keeps its activations as in training; model.eval() alone does not "
            "change that."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                ("If gradients are off already", "evaluate fewer samples at a time"),
                (
                    "If memory still grows from batch to batch",
                    "outputs are kept on the GPU: move them to the CPU as they come",
                ),
            ),
        )


def _known(case: Case) -> str:
    if case.frames:
        return "The traceback shows nothing that turns gradients off."
    return "The input does not show whether gradients are off."
