"""Models with several stacks: transformers' own class in a traced loop, and the plan of the same job."""

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
    Quantization,
)
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.families.cases import PRECISIONS, TYPES
from tests.tracing.programs import traced

#: bf16 weights under autocast.
_BOTH = Precision(weights="bf16", compute="bf16", autocast=True)
T5 = {
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 4,
    "num_heads": 8,
    "vocab_size": 32128,
    "relative_attention_num_buckets": 32,
    "dropout_rate": 0.1,
    "decoder_start_token_id": 0,
}
FLAN = {
    **T5,
    "d_ff": 1024,
    "num_heads": 6,
    "num_decoder_layers": 3,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
BART = {
    "d_model": 768,
    "encoder_layers": 3,
    "decoder_layers": 4,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "dropout": 0.1,
}
CLIP = {
    "projection_dim": 512,
    "text_config": {
        "vocab_size": 49408,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "max_position_embeddings": 77,
        "projection_dim": 512,
    },
    "vision_config": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 5,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 16,
        "projection_dim": 512,
    },
}
SIGLIP = {
    "text_config": {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 4,
        "num_attention_heads": 12,
        "max_position_embeddings": 64,
        "projection_size": 768,
    },
    "vision_config": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 5,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 16,
    },
}
DEBERTA = {
    "vocab_size": 128100,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "position_buckets": 256,
    "relative_attention": True,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pooler_hidden_size": 768,
    "pooler_dropout": 0,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "num_labels": 3,
}
LLAVA = {
    "image_token_index": 7,
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "llama",
        "vocab_size": 32064,
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "max_position_embeddings": 4096,
    },
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 5,
        "num_attention_heads": 12,
        "image_size": 336,
        "patch_size": 14,
    },
}
#: What a loop reads. Each step's batch reaches the GPU in the loop, as a Trainer's does: images count.
_LANGUAGE = (r".*language_model.*\.(q_proj|v_proj)",)
_ILLUSTRATED = """
tokens = torch.zeros(batch, source, dtype=torch.int64)
tokens[:, :576] = 7
images = torch.zeros(batch, 3, image, image)
def read():
    ids, pixels = tokens.to("cuda"), images.to("cuda")
    return {
        "input_ids": ids, "attention_mask": mask(ids), "labels": ids.clone(), "pixel_values": pixels,
        "use_cache": False,
    }
"""
_CAPTIONED = """
tokens = torch.zeros(batch, source, dtype=torch.int64)
images = torch.zeros(batch, 3, image, image)
def read():
    found = {"input_ids": tokens.to("cuda"), "pixel_values": images.to("cuda"), "return_loss": True}
    return {**found, "attention_mask": mask(tokens)} if MASK else found
"""
_LABELLED = """
tokens = torch.zeros(batch, source, dtype=torch.int64)
def read():
    ids, labels = tokens.to("cuda"), torch.zeros(LABELS, dtype=torch.int64, device="cuda")
    return {"input_ids": ids, "attention_mask": mask(ids), "labels": labels}
"""
_PAIRS = """
tokens = torch.zeros(batch, source, dtype=torch.int64)
def read():
    ids, labels = tokens.to("cuda"), torch.zeros(batch, target, dtype=torch.int64, device="cuda")
    return {"input_ids": ids, "attention_mask": mask(ids), "labels": labels, "use_cache": False}
"""


@dataclass(frozen=True)
class StackedCase:
    """A set-up. `auto` is transformers' class that makes the model; `inputs` the lines that make a batch."""

    name: str
    family: str
    config: dict[str, Any] = field(hash=False)
    auto: str = "AutoModelForSeq2SeqLM"
    inputs: str = _PAIRS
    batch: int = 8
    source: int | None = 256
    target: int | None = 128
    image: int | None = None
    precision: str = "bf16-autocast"
    attention: str = "sdpa"
    lora: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    recomputed: bool = False
    evaluates: bool = False
    padded: bool = False
    quantized: str = ""
    prepared: bool = False
    gpu: str = "a100-80gb"

    def job(self) -> Job:
        """For the plan."""
        lora = Lora(rank=8, targets=self.lora) if self.lora else None
        kind: Any = self.quantized
        quantization = Quantization(kind=kind, prepared=self.prepared) if kind else None
        name: Any = "qlora" if quantization else "lora" if lora else "full"
        return Job(
            model=Model(name=self.name, family=self.family, config=_flat(self.config)),
            method=Method(name=name, lora=lora, quantization=quantization, frozen=self.frozen),
            precision=_BOTH if self.precision == "bf16-both" else PRECISIONS[self.precision],
            batch=Batch(
                micro=self.batch,
                sequence=self.source,
                target=self.target,
                image_size=self.image,
                padding="longest" if self.padded else "off",
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
        stored = TYPES["fp32" if cast == "autocast" else weights]
        start = f"""
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
            if {self.quantized!r}:
                import bitsandbytes
                for name, module in list(model.named_modules()):
                    if isinstance(module, torch.nn.Linear) and name != "lm_head":
                        made = bitsandbytes.nn.Linear4bit(
                            module.in_features, module.out_features, bias=module.bias is not None,
                            compute_dtype=torch.bfloat16, compress_statistics=False, quant_type={self.quantized!r},
                        )
                        made.requires_grad_(False)
                        parent, _, last = name.rpartition(".")
                        setattr(model.get_submodule(parent), last, made)
                model.is_loaded_in_4bit = True
            model.to("cuda").train()
            if {self.prepared}:
                import peft
                model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
            for name, parameter in model.named_parameters():
                if name.startswith({self.frozen!r} or ("-",)):
                    parameter.requires_grad_(False)
            if {self.lora!r}:
                import peft
                model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules={_targets(self.lora)!r}))
            if {self.recomputed}:
                model.gradient_checkpointing_enable({{"use_reentrant": False}})
                if {self.lora!r}:
                    model.enable_input_require_grads()
            optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
            batch, source, target, image = {self.batch}, {self.source}, {self.target}, {self.image}
            def mask(tokens):
                made = torch.ones(tokens.shape, dtype=torch.int64)
                made[0, -1] = {0 if self.padded else 1}
                return made.to("cuda")
        """
        end = f"""
            for _ in range(2):
                optimizer.zero_grad()
                inputs = read()
                with torch.autocast("cuda", torch.{TYPES[weights]}) if {bool(cast)} else contextlib.nullcontext():
                    out = model(**inputs)
                    loss = out.loss
                loss.backward()
                optimizer.step()
            if {self.evaluates}:
                model.eval()
                class Reads(torch.nn.Module):
                    # A module's call, so that the batch is the evaluation's and not another step's.
                    def forward(self):
                        return model(**read())
                with torch.no_grad():
                    with torch.autocast("cuda", torch.{TYPES[weights]}) if {bool(cast)} else contextlib.nullcontext():
                        seen = Reads()()
        """
        return textwrap.dedent(start) + self.inputs + textwrap.dedent(end)


def _targets(lora: tuple[str, ...]) -> Any:
    """As PEFT takes them: a pattern, or names."""
    return lora[0] if any("*" in each for each in lora) else list(lora)


def _flat(config: dict[str, Any], prefix: str = "") -> tuple[Dimension, ...]:
    """As a config.json is read: nested ones with dots."""
    found: list[Dimension] = []
    for key in sorted(config):
        value = config[key]
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append(
                Dimension(key=prefix + key, value=tuple(value) if isinstance(value, list) else value)
            )
    return tuple(sorted(found, key=lambda each: each.key))


def expected(case: StackedCase) -> dict[str, int]:
    """Peaks of the trace by phase."""
    return dict(traced(case.program(), gpu=case.gpu).peak_by_phase)


def found(case: StackedCase) -> dict[str, int]:
    """Peaks of the plan by phase."""
    its, sink = case.job(), PeakSink()
    compose(setup_of(its, variants(its)[0]), sink)
    return {phase.value: peak.bytes for phase, peak in sink.peaks().items()}


def _t5(name: str, **more: Any) -> StackedCase:
    return StackedCase(f"t5-{name}", "t5", T5, **more)


def _flan(name: str, **more: Any) -> StackedCase:
    return StackedCase(f"flan-t5-{name}", "t5", FLAN, **more)


def _bart(name: str, **more: Any) -> StackedCase:
    return StackedCase(f"bart-{name}", "bart", BART, **more)


def _clip(name: str, family: str = "clip", **more: Any) -> StackedCase:
    whole: dict[str, Any] = CLIP if family == "clip" else SIGLIP
    mask = "True" if family == "clip" else "False"
    config = {**whole, "vision_config": {**whole["vision_config"], **more.pop("vision", {})}}
    inputs = _CAPTIONED.replace("MASK", mask)
    more = {"source": 77 if family == "clip" else 64, "target": None, "image": 224, "batch": 32, **more}
    return StackedCase(f"{family}-{name}", family, config, "AutoModel", inputs, **more)


def _llava(name: str, **more: Any) -> StackedCase:
    more = {"source": 1024, "target": None, "image": 336, "batch": 2, **more}
    return StackedCase(f"llava-{name}", "llava", LLAVA, "AutoModelForImageTextToText", _ILLUSTRATED, **more)


def _deberta(name: str, task: str = "SequenceClassification", **more: Any) -> StackedCase:
    config = {**DEBERTA, "architectures": [f"DebertaV2For{task}"]}
    labels = "batch" if task.startswith("Sequence") else "(batch, source)"
    inputs = _LABELLED.replace("LABELS", labels)
    auto = f"AutoModelFor{task}"
    more = {"target": None, "attention": "eager", **more}
    return StackedCase(f"deberta-{name}", "deberta-v2", config, auto, inputs, **more)


CASES = (
    _t5("fp32", precision="fp32"),
    _t5("autocast"),
    _t5("bf16", precision="bf16", attention="eager"),
    _t5("lora", lora=("q", "v")),
    _t5("lora-recomputed", lora=("q", "v"), recomputed=True, precision="bf16"),
    _t5("recomputed", recomputed=True, batch=32, source=512),
    _t5("evaluated", evaluates=True, batch=16),
    _flan("fp32", precision="fp32", target=64),
    _flan("autocast-eager", attention="eager", target=192),
    _flan("lora", lora=("q", "v"), precision="bf16", batch=1, source=512),
    _bart("fp32", precision="fp32"),
    _bart("autocast", source=512, target=64),
    _bart("bf16-eager", precision="bf16", attention="eager"),
    _bart("padded", padded=True),
    _bart("lora", lora=("q_proj", "v_proj")),
    _bart("lora-recomputed", lora=("q_proj", "v_proj"), recomputed=True),
    _bart("recomputed", recomputed=True, batch=16, target=256),
    _clip("fp32", precision="fp32"),
    _clip("autocast", evaluates=True),
    _clip("bf16-eager", precision="bf16", attention="eager"),
    _clip("lora", lora=("q_proj", "v_proj")),
    _clip("recomputed", recomputed=True, batch=64),
    _clip("padded", padded=True),
    _clip("text-frozen", frozen=("text_model.", "text_projection.")),
    _clip("fp32", "siglip", precision="fp32"),
    _clip("autocast", "siglip"),
    # The last four pixels are in no patch.
    _clip("remainder", "siglip", image=200, vision={"image_size": 200, "patch_size": 14}),
    _clip("lora", "siglip", lora=("q_proj", "v_proj"), precision="bf16"),
    _clip("recomputed", "siglip", recomputed=True, batch=64),
    _deberta("fp32", precision="fp32"),
    _deberta("autocast", evaluates=True),
    _deberta("bf16", precision="bf16", source=512),
    _deberta("masked-lm", "MaskedLM"),
    _deberta("masked-lm-lora", "MaskedLM", lora=("query_proj", "value_proj"), precision="bf16"),
    _deberta("tokens", "TokenClassification", source=128, batch=16),
    _deberta("lora", lora=("query_proj", "value_proj")),
    _deberta("recomputed", recomputed=True),
    _llava("fp32", precision="fp32"),
    _llava("autocast", evaluates=True),
    _llava("vision-frozen", frozen=("model.vision_tower",), precision="bf16", padded=True),
    _llava(
        "vision-frozen-fa2", frozen=("model.vision_tower",), precision="bf16", attention="flash_attention_2"
    ),
    _llava("lora-recomputed", lora=_LANGUAGE, precision="bf16", recomputed=True),
    _llava("lora-one", lora=("q_proj", "v_proj"), batch=1),
    _llava("qlora-prepared", lora=_LANGUAGE, quantized="nf4", precision="bf16", prepared=True),
    _llava(
        "qlora-recomputed",
        lora=_LANGUAGE,
        quantized="nf4",
        precision="bf16-both",
        prepared=True,
        recomputed=True,
    ),
    _llava("recomputed", recomputed=True),
    _bart("one", batch=1, precision="fp32", evaluates=True),
)
