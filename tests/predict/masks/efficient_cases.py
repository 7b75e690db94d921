"""scaled_dot_product_attention held to its memory-efficient kernel, as torch.nn.attention.sdpa_kernel does."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from tests.predict.families.cases import BERT, GPT2, LLAMA, Case

_LOOP = "for _ in range(2):"
_HELD = """for backend in ("flash", "math", "cudnn"):
    getattr(torch.backends.cuda, f"enable_{backend}_sdp")(False)
"""


@dataclass(frozen=True)
class Efficient(Case):
    """A set-up in which the other kernels are switched off."""

    def job(self) -> Job:
        """For the plan."""
        return replace(super().job(), attention="sdpa_efficient")

    def program(self) -> str:
        """For PyTorch."""
        text = super().program()
        assert text.count(_LOOP) == 1
        return text.replace(_LOOP, _HELD + _LOOP)


_EQUAL = {**LLAMA, "num_key_value_heads": 16}
_CAUSAL = "AutoModelForCausalLM"
EFFICIENT = (
    Efficient("efficient-gpt2", "gpt2", GPT2, _CAUSAL, "GPT2LMHeadModel"),
    Efficient("efficient-gpt2-odd", "gpt2", GPT2, _CAUSAL, "GPT2LMHeadModel", sequence=97, precision="bf16"),
    Efficient("efficient-llama", "llama", _EQUAL, _CAUSAL, "LlamaForCausalLM", sequence=512, batch=2),
    Efficient(
        "efficient-llama-recomputed",
        "llama",
        _EQUAL,
        _CAUSAL,
        "LlamaForCausalLM",
        recomputed=True,
        precision="bf16",
    ),
    Efficient(
        "efficient-llama-wide",
        "llama",
        {**_EQUAL, "num_attention_heads": 4, "num_key_value_heads": 4},
        _CAUSAL,
        "LlamaForCausalLM",
        sequence=250,
        precision="bf16",
    ),
    Efficient("efficient-bert", "bert", BERT, "AutoModelForMaskedLM", "BertForMaskedLM", precision="bf16"),
)
