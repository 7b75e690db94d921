"""Did the quantisation that was asked for take place?"""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_BITS = {"4bit": 4, "8bit": 8}
_CHECK = (
    "from collections import Counter\nprint(Counter(str(p.dtype) for p in model.parameters()))   # "
    "torch.uint8 / int8 for quantised layers\n"
    'print(f"{model.get_memory_footprint() / 2**30:.2f} GiB")'
)
_QUANTISE = (
    "from transformers import BitsAndBytesConfig\n\nconfig = BitsAndBytesConfig(load_in_4bit=True, "
    "bnb_4bit_compute_dtype=torch.bfloat16)\nmodel = AutoModelForCausalLM.from_pretrained(path, "
    "quantization_config=config)"
)


class QuantizeCheck(Action):
    """Check a quantisation flag; with adapters and none, quantise the frozen base."""

    code = "quantize-check"
    title = "Check that the quantisation took effect"

    def applies(self, case: Case) -> bool:
        """Where quantisation was asked for, or adapters train on top of a base in full precision."""
        setup = setup_of(case)
        return setup.quantization in _BITS or (setup.partly_trained and setup.dtype not in ("4bit", "8bit"))

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        bits = _BITS.get(setup.quantization)
        if bits is None:
            return self._quantise(case)
        text = (
            f"{must_free(case)} The log asks for {setup.quantization} weights. If the flag did not arrive "
            "(an ignored keyword, a model class without support, a checkpoint that overrides it) the "
            "weights are loaded in full."
        )
        count = setup.total_params
        if count:
            expected = count * bits // 8
            text += f" {params_words(count)} parameters take about {format_bytes(expected)} in {bits} bits"
            allocated = case.ledger.allocated_bytes
            text += f"; {format_bytes(allocated)} were allocated." if allocated else "."
        return self.make(
            text,
            _CHECK,
            outcomes=(
                (
                    "If the dtypes are 16 or 32 bit",
                    "the flag is lost: pass quantization_config to from_pretrained itself",
                ),
                (
                    "If they are quantised",
                    "the base is as small as it gets: shard it or take a smaller model",
                ),
            ),
        )

    def _quantise(self, case: Case) -> Step:
        count = setup_of(case).total_params
        text = (
            f"{must_free(case)} The base is frozen, so it can be kept in 4 bits while the adapters train "
            "(QLoRA)."
        )
        if count:
            text += (
                f" {params_words(count)} parameters: about {format_bytes(count // 2)} instead of "
                f"{format_bytes(2 * count)} in bf16."
            )
        return self.make(
            text,
            _QUANTISE,
            title="Quantise the frozen base to 4 bits",
            outcomes=(
                (
                    "If it still fails while loading",
                    "load straight to the device (device_map), not through a full copy",
                ),
            ),
        )
