"""What is compared: transformers' own class in a traced loop, and the plan of the same job."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

from oomph.hardware.names import gpu as gpu_named
from oomph.job.model import (
    Batch,
    Checkpointing,
    Dimension,
    Evaluation,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Model,
    Precision,
)
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.tracing.programs import traced

#: Short, but with other widths than the programs were recorded at.
WIDE = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
}
BERT = {
    **WIDE,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "num_labels": 3,
}
DISTILBERT = {
    "dim": 768,
    "hidden_dim": 3072,
    "n_layers": 4,
    "n_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "num_labels": 3,
}
MODERNBERT = {
    **WIDE,
    "intermediate_size": 1152,
    "vocab_size": 50368,
    "max_position_embeddings": 8192,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "tie_word_embeddings": True,
    "pad_token_id": 50283,
}
VIT = {
    **WIDE,
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_labels": 1000,
}
LLAMA = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 3,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
GPT2 = {
    "n_embd": 768,
    "n_inner": 3072,
    "n_layer": 4,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
}
PRECISIONS = {
    "fp32": Precision(),
    "bf16": Precision(weights="bf16", compute="bf16"),
    "fp16": Precision(weights="fp16", compute="fp16"),
    "bf16-autocast": Precision(weights="fp32", compute="bf16", autocast=True),
    "fp16-autocast": Precision(weights="fp32", compute="fp16", autocast=True),
}
TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True)
class Case:
    """A set-up. `auto` is transformers' class that makes the model, `name` the class that it makes."""

    name: str
    family: str
    config: dict[str, Any] = field(hash=False)
    auto: str
    architecture: str
    batch: int = 8
    sequence: int = 128
    precision: str = "bf16-autocast"
    attention: str = "sdpa"
    lora: tuple[str, ...] = ()
    recomputed: bool = False
    gpu: str = "a100-80gb"
    evaluates: bool = False

    @property
    def images(self) -> bool:
        """Whether it reads images."""
        return "image_size" in self.config

    def job(self) -> Job:
        """For the plan."""
        fields = {**self.config, "architectures": (self.architecture,)}
        lora = Lora(rank=8, targets=self.lora) if self.lora else None
        return Job(
            model=Model(
                name=self.name,
                family=self.family,
                config=tuple(Dimension(key=key, value=fields[key]) for key in sorted(fields)),
            ),
            method=Method(name="lora", lora=lora) if lora else Method(),
            precision=PRECISIONS[self.precision],
            batch=Batch(
                micro=self.batch,
                sequence=None if self.images else self.sequence,
                image_size=self.config.get("image_size"),
            ),
            checkpointing=Checkpointing(mode="full" if self.recomputed else "none", reentrant=False),
            evaluation=Evaluation(batch=self.batch if self.evaluates else None),
            attention=self.attention,  # type: ignore[arg-type]
            framework=Framework(name="pytorch", versions=(("torch", "2.13.0"), ("transformers", "5.24.0"))),
            hardware=Hardware(gpu=gpu_named(self.gpu).short_name),
        )

    def program(self) -> str:
        """For PyTorch: two steps in a plain loop."""
        weights, _, cast = self.precision.partition("-")
        stored = TYPES["fp32" if cast else weights]
        return textwrap.dedent(f"""
            import contextlib, warnings
            warnings.simplefilter("ignore")
            import transformers
            from transformers.initialization import no_init_weights
            config = transformers.AutoConfig.for_model({self.family!r}, **{self.config!r})
            with no_init_weights():
                model = transformers.{self.auto}.from_config(
                    config, dtype=torch.{stored}, attn_implementation={self.attention!r}
                )
            model.tie_weights()
            model.to("cuda").train()
            if {self.lora!r}:
                import peft
                lora = peft.LoraConfig(r=8, target_modules=list({self.lora!r}))
                model = peft.get_peft_model(model, lora)
            if {self.recomputed}:
                model.gradient_checkpointing_enable({{"use_reentrant": False}})
                if {self.lora!r}:
                    model.enable_input_require_grads()
            optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
            batch, classes = {self.batch}, {self.auto.endswith("Classification")}
            if {self.images}:
                side = {self.config.get("image_size")}
                inputs = {{"pixel_values": torch.zeros(batch, 3, side, side, device="cuda")}}
            else:
                tokens = torch.zeros(batch, {self.sequence}, dtype=torch.int64, device="cuda")
                inputs = {{"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}}
            if classes:
                labels = torch.zeros(batch, dtype=torch.int64, device="cuda")
            else:
                labels = tokens
            if {self.auto.endswith("CausalLM")}:
                inputs["use_cache"] = False
            for _ in range(2):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.{TYPES[weights]}) if {bool(cast)} else contextlib.nullcontext():
                    out = model(**inputs, labels=labels)
                    loss = out.loss
                loss.backward()
                optimizer.step()
            if {self.evaluates}:
                model.eval()
                with torch.no_grad():
                    with torch.autocast("cuda", torch.{TYPES[weights]}) if {bool(cast)} else contextlib.nullcontext():
                        seen = model(**inputs, labels=labels)
        """)


def expected(case: Case) -> dict[str, int]:
    """Peaks of the trace by phase."""
    return dict(traced(case.program(), gpu=case.gpu).peak_by_phase)


def found(case: Case) -> dict[str, int]:
    """Peaks of the plan by phase."""
    its, sink = case.job(), PeakSink()
    compose(setup_of(its, variants(its)[0]), sink)
    return {phase.value: peak.bytes for phase, peak in sink.peaks().items()}


def _encoder(name: str, **more: Any) -> Case:
    task = "Classification" if "classifier" in name else "MaskedLM"
    auto = "AutoModelForSequenceClassification" if task == "Classification" else "AutoModelForMaskedLM"
    architecture = "BertForSequenceClassification" if task == "Classification" else "BertForMaskedLM"
    return Case(name, "bert", BERT, auto, architecture, **more)


_HEADS = {
    "roberta": ("RobertaForMaskedLM", "RobertaForSequenceClassification"),
    "xlm-roberta": ("XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertForSequenceClassification"),
}


def _other(name: str, family: str, **more: Any) -> Case:
    masked, classifier = _HEADS[family]
    config = (
        DISTILBERT if family == "distilbert" else {**BERT, "pad_token_id": 1, "max_position_embeddings": 514}
    )
    if "classifier" in name:
        return Case(name, family, config, "AutoModelForSequenceClassification", classifier, **more)
    return Case(name, family, config, "AutoModelForMaskedLM", masked, **more)


def _modern(name: str, **more: Any) -> Case:
    auto, architecture = "AutoModelForMaskedLM", "ModernBertForMaskedLM"
    return Case(name, "modernbert", MODERNBERT, auto, architecture, **more)


def _vit(name: str, **more: Any) -> Case:
    return Case(name, "vit", VIT, "AutoModelForImageClassification", "ViTForImageClassification", **more)


def _llama(name: str, **more: Any) -> Case:
    return Case(
        name,
        "llama",
        LLAMA,
        "AutoModelForCausalLM",
        "LlamaForCausalLM",
        gpu="t4",
        batch=2,
        sequence=512,
        **more,
    )


CASES = (
    _encoder("bert-masked-lm", batch=32),
    _encoder("bert-masked-lm-fp32", precision="fp32"),
    _encoder("bert-classifier", sequence=512),
    _encoder("bert-classifier-bf16", precision="bf16"),
    _encoder("bert-classifier-fp32", precision="fp32", sequence=256),
    _encoder("bert-classifier-lora", lora=("query", "value")),
    _encoder("bert-classifier-lora-recomputed", lora=("query", "value"), recomputed=True),
    _encoder("bert-masked-lm-recomputed", recomputed=True),
    _encoder("bert-classifier-evaluated", evaluates=True, batch=64),
    _encoder("bert-masked-lm-eager", attention="eager", evaluates=True),
    _other("roberta-masked-lm", "roberta", sequence=256),
    _other("roberta-classifier-lora", "roberta", lora=("query", "value"), precision="bf16"),
    _other("xlm-roberta-classifier", "xlm-roberta", precision="fp32"),
    _other("distilbert-masked-lm", "distilbert", batch=16),
    _other("distilbert-classifier", "distilbert", precision="fp16-autocast", gpu="t4"),
    _other("distilbert-classifier-recomputed", "distilbert", recomputed=True),
    _modern("modernbert", sequence=32),
    _modern("modernbert-window", sequence=512),
    _modern("modernbert-fp32", sequence=512, precision="fp32"),
    _modern("modernbert-window-recomputed", sequence=512, recomputed=True),
    _modern("modernbert-lora", sequence=256, lora=("Wqkv", "Wo")),
    _vit("vit", batch=16),
    _vit("vit-fp32", precision="fp32"),
    _vit("vit-bf16", precision="bf16"),
    _vit("vit-recomputed", recomputed=True),
    _vit("vit-evaluated", evaluates=True, precision="fp32"),
    _llama("llama-t4-fp16", precision="fp16"),
    Case(
        "gpt2-lora-recomputed",
        "gpt2",
        GPT2,
        "AutoModelForCausalLM",
        "GPT2LMHeadModel",
        sequence=512,
        lora=("c_attn",),
        recomputed=True,
    ),
    _llama("llama-t4-fp32", precision="fp32"),
    _llama("llama-t4-fp16-autocast", precision="fp16-autocast"),
    _llama("llama-t4-fp16-lora", precision="fp16", lora=("q_proj", "v_proj")),
    _llama("llama-t4-fp16-lora-recomputed", precision="fp16", lora=("q_proj", "v_proj"), recomputed=True),
)
