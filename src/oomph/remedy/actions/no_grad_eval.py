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
        return case.phase in (Phase.EVAL, Phase.GENERATE, Phase.UNKNOWN) and case.frame_matching(_OFF) is None

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} The traceback shows nothing that turns gradients off. With gradients on "
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
