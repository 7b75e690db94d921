"""Training adapters instead of all weights."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_SETTINGS = {
    "axolotl": "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true",
    "torchtune": "tune run lora_finetune_single_device --config <config>",
}
_PEFT = (
    "from peft import LoraConfig, get_peft_model\n\n"
    "config = LoraConfig(\n"
    '    r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"\n'
    ")\n"
    "model = get_peft_model(model, config)\nmodel.print_trainable_parameters()"
)


class Lora(Action):
    """LoRA in place of a full fine-tune."""

    code = "lora"
    title = "Train LoRA adapters instead of all weights"

    def applies(self, case: Case) -> bool:
        """Unless only a small part of the parameters is trained already."""
        return not setup_of(case).partly_trained

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        text = (
            f"{must_free(case)} Gradients and optimizer states exist for trained parameters only; adapters "
            "are usually under 1 % of them. It is another method of training, so compare the result."
        )
        states = setup.adam_bytes
        if states and setup.trainable_params:
            text += (
                f" Here Adam's two states for {params_words(setup.trainable_params)} trained parameters "
                f"take {format_bytes(states)}, nearly all of which goes."
            )
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PEFT),
            outcomes=(
                ("If the weights alone do not fit", "quantise the frozen base to 4 bits (QLoRA)"),
                (
                    "If it fails in forward or backward now",
                    "the activations are what is left: smaller micro-batch, checkpointing",
                ),
            ),
        )
