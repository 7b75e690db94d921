"""Weights in 16 bits."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_LOW = frozenset({"fp16", "bf16", "8bit", "4bit"})
_SETTINGS = {
    "transformers": "from_pretrained(path, dtype=torch.bfloat16)   # torch_dtype= before transformers 4.56",
    "accelerate": "from_pretrained(path, dtype=torch.bfloat16)   # torch_dtype= before transformers 4.56",
    "axolotl": "bf16: true",
    "torchtune": "dtype=bf16",
    "lightning": 'Trainer(..., precision="bf16-true")',
    "deepspeed": '"bf16": {"enabled": true}',
    "torchtitan": "--training.dtype bfloat16",
    "megatron": "--bf16",
    "diffusers": "--mixed_precision=bf16",
}
_PLAIN = "model = Model(config).to(torch.bfloat16)   # before .to(device), not after"


class LowerDtype(Action):
    """bf16 instead of fp32 weights."""

    code = "lower-dtype"
    title = "Load the weights in bf16"

    def applies(self, case: Case) -> bool:
        """Unless the weights are in 16 bits or fewer already."""
        setup = setup_of(case)
        return setup.dtype not in _LOW and setup.quantization not in ("4bit", "8bit")

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        frees = None
        count = setup.params
        if setup.dtype == "fp32":
            half = "fp32 takes 4 bytes per parameter, bf16 takes 2."
        else:
            half = "fp32 weights, if that is what they are, take 4 bytes per parameter; bf16 takes 2."
        if count is not None:
            half += (
                f" For {params_words(count)} parameters that is {format_bytes(4 * count)} against "
                f"{format_bytes(2 * count)}."
            )
            if setup.dtype == "fp32" and not setup.sharded_parameters:
                frees = 2 * count
        caution = ""
        if setup.mixed in ("fp16", "bf16"):
            caution = f" mixed_precision={setup.mixed} does not do it: autocast keeps the parameters in fp32."
        early = (
            " Give the dtype while loading; converting afterwards needs the fp32 copy first."
            if case.phase is Phase.LOAD
            else ""
        )
        training = (
            " Training pure bf16 weights also makes gradients and optimizer states 16 bits wide: watch the "
            "loss."
        )
        text = f"{must_free(case)} {half}{caution}{early}{training}"
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PLAIN),
            frees_bytes=frees,
            outcomes=(
                (
                    "If it still fails at the same place",
                    "print next(model.parameters()).dtype there: the setting may not have arrived",
                ),
                (
                    "If the weights fit now and the first step fails",
                    "train fewer parameters (LoRA) or shard the states",
                ),
            ),
        )
