"""Adam's states in 8 bits."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

#: Two 8-bit states, and one fp32 scale for each block of 256 entries of either.
_BLOCK = 256
_SMALL = ("8bit", "8-bit", "adafactor", "lion", "sgd", "galore", "lomo", "muon")
_SETTINGS = {
    "transformers": 'optim="adamw_bnb_8bit",',
    "axolotl": "optimizer: adamw_bnb_8bit",
    "torchtune": "optimizer=torchao.optim.AdamW8bit",
    "diffusers": "--use_8bit_adam",
}
_PLAIN = "import bitsandbytes as bnb\n\noptimizer = bnb.optim.AdamW8bit(model.parameters(), lr=lr)"


class EightBitOptimizer(Action):
    """8-bit AdamW."""

    code = "eight-bit-optimizer"
    title = "Keep the optimizer states in 8 bits"

    def applies(self, case: Case) -> bool:
        """On CUDA and ROCm, unless the optimizer has small states already or DeepSpeed runs its own."""
        setup = setup_of(case)
        name = setup.optimizer.lower()
        if case.failure.vendor not in ("cuda", "hip") or any(word in name for word in _SMALL):
            return False
        return not setup.zero_stage

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        text = (
            f"{must_free(case)} Adam keeps two tensors per trained parameter: 8 bytes in fp32, about 2 in "
            "8 bits."
        )
        frees = None
        width, states = setup.adam_bytes_per_parameter, setup.adam_bytes
        if width and states and setup.trainable_params:
            parameters = states // width
            frees = states - 2 * parameters - 2 * 4 * parameters // _BLOCK
            text += (
                f" For {params_words(setup.trainable_params)} trained parameters that is "
                f"{format_bytes(frees)} less on this rank."
            )
        text += (
            " The states must be new: a checkpoint of the other optimizer does not load into it. Watch the "
            "loss curve."
        )
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PLAIN),
            frees_bytes=frees,
            outcomes=(
                ("If it still fails in the step", "train fewer parameters (LoRA), or shard over more GPUs"),
            ),
        )
