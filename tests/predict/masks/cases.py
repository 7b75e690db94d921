"""What is compared: transformers' own class, given a mask with a zero, in a traced loop, and the plan of the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from oomph.job.model import Job
from tests.predict.families.cases import BERT, LLAMA, Case

QWEN2 = {**LLAMA, "num_hidden_layers": 3}
GEMMA2 = {**LLAMA, "head_dim": 64, "sliding_window": 4096, "query_pre_attn_scalar": 64, "pad_token_id": 0}
GEMMA3 = {
    **LLAMA,
    "num_hidden_layers": 4,
    "head_dim": 64,
    "sliding_window": 64,
    "layer_types": ("sliding_attention", "sliding_attention", "full_attention", "sliding_attention"),
    "pad_token_id": 0,
}
#: Of 128 tokens the first sample has all but one, the others all: what is padded least needs the most.
_ALL = "torch.ones_like(tokens)"
_ZEROS = "(torch.arange(tokens.numel(), device='cuda').view_as(tokens) != 127).long()"


@dataclass(frozen=True)
class Padded(Case):
    """A set-up whose batches are padded."""

    def job(self) -> Job:
        """For the plan."""
        job = super().job()
        return replace(job, batch=replace(job.batch, padding="max_length"))

    def program(self) -> str:
        """For PyTorch."""
        text = super().program()
        assert _ALL in text
        plain = {
            key: list(value) if isinstance(value, tuple) else value for key, value in self.config.items()
        }
        return text.replace(_ALL, _ZEROS).replace(repr(self.config), repr(plain))


def decoder(name: str, family: str, config: dict[str, Any], architecture: str, **more: Any) -> Padded:
    """A causal language model."""
    return Padded(f"{family}-{name}", family, config, "AutoModelForCausalLM", architecture, **more)


def encoder(name: str, **more: Any) -> Padded:
    """BERT, whose dropout is on."""
    auto, architecture = "AutoModelForMaskedLM", "BertForMaskedLM"
    if name.startswith("classifier"):
        auto, architecture = "AutoModelForSequenceClassification", "BertForSequenceClassification"
    return Padded(f"bert-{name}", "bert", BERT, auto, architecture, **more)


_ADAPTED = ("q_proj", "v_proj")
_WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "lora": {"lora": _ADAPTED, "precision": "bf16"},
    "recomputed": {"recomputed": True},
    "lora-recomputed": {"lora": _ADAPTED, "recomputed": True, "precision": "bf16"},
}


def _decoders() -> list[Padded]:
    found = []
    for family, config, architecture, attentions in (
        ("llama", LLAMA, "LlamaForCausalLM", ("sdpa", "eager", "flash_attention_2")),
        ("qwen2", QWEN2, "Qwen2ForCausalLM", ("sdpa", "flash_attention_2")),
        ("gemma2", GEMMA2, "Gemma2ForCausalLM", ("eager", "flash_attention_2")),
    ):
        for attention in attentions:
            for way, more in _WAYS.items():
                found.append(
                    decoder(f"{attention}-{way}", family, config, architecture, attention=attention, **more)
                )
    return found


CASES = (
    *_decoders(),
    decoder("one", "llama", LLAMA, "LlamaForCausalLM", batch=1, sequence=512),
    decoder("odd", "llama", LLAMA, "LlamaForCausalLM", sequence=297),
    decoder("odd-lora", "llama", LLAMA, "LlamaForCausalLM", sequence=297, lora=_ADAPTED, precision="bf16"),
    decoder("fp32", "llama", LLAMA, "LlamaForCausalLM", precision="fp32"),
    decoder("evaluates", "llama", LLAMA, "LlamaForCausalLM", precision="bf16", evaluates=True),
    decoder("t4", "llama", LLAMA, "LlamaForCausalLM", precision="fp16-autocast", gpu="t4"),
    decoder("window", "gemma3_text", GEMMA3, "Gemma3ForCausalLM"),
    encoder("masked-sdpa"),
    encoder("masked-eager", attention="eager"),
    encoder("masked-recomputed", recomputed=True, precision="bf16"),
    encoder("masked-lora", lora=("query", "value"), precision="bf16"),
    encoder("classifier-sdpa"),
    encoder("classifier-eager", attention="eager", precision="fp32"),
    encoder("classifier-fp32", precision="fp32"),
)
