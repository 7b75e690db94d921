"""What is compared: transformers' class with PEFT's adapters in a traced loop, and the plan of the same job."""

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
from oomph.predict.compose import supported
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.tracing.programs import traced

LLAMA = {
    "vocab_size": 8192,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
GPT2 = {
    "vocab_size": 8192,
    "n_embd": 512,
    "n_inner": 2048,
    "n_layer": 3,
    "n_head": 8,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
}
CONFIGS: dict[str, dict[str, Any]] = {"llama": LLAMA, "gpt2": GPT2, "qwen2": LLAMA}
PRECISIONS = {
    "fp32": Precision(),
    "bf16": Precision(weights="bf16", compute="bf16"),
    "bf16-autocast": Precision(weights="fp32", compute="bf16", autocast=True),
    "bf16-both": Precision(weights="bf16", compute="bf16", autocast=True),
}
RANK = 8


@dataclass(frozen=True)
class Case:
    """A set-up. `bf16-both`: bf16 weights under autocast."""

    name: str
    family: str = "llama"
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    dora: bool = False
    dropout: float = 0.0
    lora_dtype: str = "fp32"
    precision: str = "bf16"
    quantized: str = ""
    prepared: bool = False
    recomputed: bool = False
    reentrant: bool = False
    batch: int = 2
    sequence: int = 256
    evaluates: bool = True
    versions: tuple[tuple[str, str], ...] = ()
    compiled: bool = False
    more: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration."""
        return {**CONFIGS[self.family], **self.more}

    def job(self) -> Job:
        """For the plan."""
        lora = Lora(
            rank=RANK,
            targets=self.targets,
            dropout=self.dropout,
            dtype=self.lora_dtype,  # type: ignore[arg-type]
            dora=self.dora,
        )
        quantization = (
            Quantization(kind=self.quantized, prepared=self.prepared)  # type: ignore[arg-type]
            if self.quantized
            else None
        )
        return Job(
            model=Model(
                name=self.name,
                family=self.family,
                config=tuple(Dimension(key=key, value=value) for key, value in sorted(self.config.items())),
            ),
            method=Method(name="qlora" if quantization else "lora", lora=lora, quantization=quantization),
            precision=PRECISIONS[self.precision],
            batch=Batch(micro=self.batch, sequence=self.sequence),
            checkpointing=Checkpointing(mode="full" if self.recomputed else "none", reentrant=self.reentrant),
            evaluation=Evaluation(batch=self.batch if self.evaluates else None),
            framework=Framework(
                name="pytorch", versions=(*self.versions, ("torch", "2.13.0"), ("transformers", "5.24.0"))
            ),
            hardware=Hardware(gpu=gpu_named("a100-80gb").short_name),
        )

    def program(self) -> str:
        """For PyTorch: two steps in a plain loop, then an evaluation."""
        stored = "float32" if self.precision in ("fp32", "bf16-autocast") else "bfloat16"
        cast = self.precision in ("bf16-autocast", "bf16-both")
        return textwrap.dedent(f"""
            import contextlib, warnings
            warnings.simplefilter("ignore")
            import transformers, peft
            # DoRA's first norms copy a quantised layer, which fake parameters cannot do.
            import peft.tuners.lora.dora
            peft.tuners.lora.dora.deepcopy = lambda layer: layer
            config = transformers.AutoConfig.for_model({self.family!r}, **{self.config!r})
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.{stored}, attn_implementation="sdpa"
            )
            if {self.quantized!r}:
                import bitsandbytes
                for name, module in list(model.named_modules()):
                    if not isinstance(module, torch.nn.Linear) or name == "lm_head":
                        continue
                    bias = module.bias is not None
                    if {self.quantized!r} == "int8":
                        made = bitsandbytes.nn.Linear8bitLt(
                            module.in_features, module.out_features, bias=bias, has_fp16_weights=False, threshold=6.0
                        )
                    else:
                        made = bitsandbytes.nn.Linear4bit(
                            module.in_features, module.out_features, bias=bias, compute_dtype=torch.bfloat16,
                            compress_statistics=False, quant_type={self.quantized!r}
                        )
                    if {self.quantized!r} == "int8":
                        made.weight = bitsandbytes.nn.Int8Params(
                            module.weight.data, requires_grad=False, has_fp16_weights=False
                        )
                    made.requires_grad_(False)
                    parent, _, last = name.rpartition(".")
                    setattr(model.get_submodule(parent), last, made)
                model.is_loaded_in_4bit = {self.quantized!r} != "int8"
                model.is_loaded_in_8bit = {self.quantized!r} == "int8"
            model.to("cuda")
            if {self.prepared}:
                model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
            lora = peft.LoraConfig(
                r={RANK}, target_modules=list({self.targets!r}), lora_dropout={self.dropout},
                use_dora={self.dora}, task_type="CAUSAL_LM"
            )
            model = peft.get_peft_model(model, lora, autocast_adapter_dtype={self.lora_dtype == "fp32"})
            if {self.recomputed}:
                model.gradient_checkpointing_enable({{"use_reentrant": {self.reentrant}}})
                model.enable_input_require_grads()
            model.train()
            optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
            tokens = torch.zeros({self.batch}, {self.sequence}, dtype=torch.int64, device="cuda")
            inputs = dict(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens, use_cache=False)
            def forward():
                with torch.autocast("cuda", torch.bfloat16) if {cast} else contextlib.nullcontext():
                    return model(**inputs)
            for _ in range(2):
                optimizer.zero_grad()
                out = forward()
                loss = out.loss
                loss.backward()
                optimizer.step()
            if {self.evaluates}:
                model.eval()
                with torch.no_grad():
                    evaluated = forward()
                    del evaluated
        """)


#: What both sides tell apart. The traced loop makes its model on the host, of no file, so loading is not compared.
PHASES = ("forward", "backward", "optimizer", "eval")


def expected(case: Case) -> dict[str, int]:
    """Peaks of the trace by phase."""
    found = traced(case.program(), gpu="a100-80gb").peak_by_phase
    return {phase: found[phase] for phase in PHASES if phase in found}


def planned(case: Case) -> dict[str, int]:
    """Peaks of the plan by phase."""
    job, sink = case.job(), PeakSink()
    supported.check(job)
    compose(setup_of(job, variants(job)[0]), sink)
    peaks = {phase.value: peak.bytes for phase, peak in sink.peaks().items()}
    return {phase: peaks[phase] for phase in PHASES if phase in peaks}
