"""The loaded checkpoint must not outlive the load."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.words import must_free

_PASTE = (
    'import gc\n\nmodel.load_state_dict(checkpoint["model"])\n'
    "del checkpoint, state_dict   # every name that refers to it\ngc.collect()"
)


class DropCheckpointDict(Action):
    """del checkpoint after load_state_dict."""

    code = "drop-checkpoint-dict"
    title = "Delete the checkpoint object after loading it"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} A checkpoint dictionary that was loaded to the GPU keeps its copy of "
            "weights and states alive as long as any name refers to it, through the first training step "
            "and beyond. A run without resume has that much more room."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                (
                    "If allocated memory after the resume equals a fresh start's",
                    "the resume is not the cause: explain the step that fails",
                ),
            ),
        )
