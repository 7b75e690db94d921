"""Activation checkpointing."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UNKNOWN)
_SETTINGS = {
    "transformers": 'gradient_checkpointing=True,\ngradient_checkpointing_kwargs={"use_reentrant": False},',
    "axolotl": "gradient_checkpointing: true",
    "torchtune": "enable_activation_checkpointing=True",
    "torchtitan": "--activation_checkpoint.mode full",
    "megatron": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    "diffusers": "--gradient_checkpointing",
}
_PLAIN = (
    "from torch.utils.checkpoint import checkpoint\n\nfor block in self.blocks:\n    x = checkpoint(block, "
    "x, use_reentrant=False)   # instead of x = block(x)"
)


class Checkpointing(Action):
    """Recompute activations in backward."""

    code = "checkpointing"
    title = "Turn on activation checkpointing"

    def applies(self, case: Case) -> bool:
        """In training steps, unless the log shows it on."""
        return case.phase in _TRAINING and not setup_of(case).checkpointing

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        alone = "The micro-batch is 1 already. " if setup.batch == 1 else ""
        text = (
            f"{must_free(case)} {alone}With checkpointing only the inputs of the blocks stay alive, and "
            "backward recomputes one block at a time: instead of the activations of all blocks it holds "
            "those of one. It costs about one more forward per step and changes no result."
        )
        paste = _SETTINGS.get(setup.dialect, _PLAIN)
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If it then fails in a recompute",
                    "one block's activations are too much: shorten the sequences or split the block",
                ),
                ("If it still fails in the loss", "the logits are what is left: use a chunked loss"),
            ),
        )
