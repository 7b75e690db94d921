"""Shorter sequences or smaller inputs."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UNKNOWN)
_SETTINGS = {
    "transformers": "max_length={length},   # SFTConfig, or tokenizer(..., truncation=True, max_length={length})",
    "axolotl": "sequence_len: {length}",
    "torchtune": "tokenizer.max_seq_len={length}",
    "torchtitan": "--training.seq_len {length}",
    "megatron": "--seq-length {length}",
}
_PLAIN = "tokenizer(..., truncation=True, max_length={length})"


class ShorterSequence(Action):
    """The last of the three: it changes what the model sees."""

    code = "shorter-sequence"
    title = "Shorten the sequences"

    def applies(self, case: Case) -> bool:
        return case.phase in _TRAINING

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        outcomes = (("If it still fails", "shard the model over more GPUs, or take a bigger card"),)
        why = (
            "Activations grow at least in proportion to the length (attention without a fused kernel grows "
            "with its square). It changes what the model learns from, so it comes after the micro-batch "
            "and checkpointing."
        )
        if setup.sequence is None:
            text = (
                f"{must_free(case)} Halve the longest sequence (or the image size, the number of frames). "
                f"{why}"
            )
            return self.make(text, outcomes=outcomes)
        half = max(1, setup.sequence // 2)
        text = (
            f"{must_free(case)} {why} Look at the lengths first: often a few samples near {setup.sequence} "
            "make the peak."
        )
        paste = _SETTINGS.get(setup.dialect, _PLAIN).format(length=half)
        return self.make(
            text, paste, title=f"Shorten the sequences: {setup.sequence} -> {half} tokens", outcomes=outcomes
        )
