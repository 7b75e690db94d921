"""What is compared: one set-up, told to transformers and TRL (`scripts.py`) and to the plan (`job`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

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
    Objective,
    Optimizer,
    Precision,
)

PRECISIONS = {
    "bf16": Precision(weights="bf16", compute="bf16"),
    "fp32": Precision(),
    "fp32-autocast": Precision(weights="fp32", compute="bf16", autocast=True),
    "bf16-autocast": Precision(weights="bf16", compute="bf16", autocast=True),
}


@dataclass(frozen=True)
class Case:
    """`kind`: generate (a loop of PyTorch, then `generate`), evaluate (Trainer.evaluate), or a trainer of TRL's.
    `length`: tokens of a sample; of these `prompt` are its prompt's. `settings`: of the trainer's configuration.
    `more`: other parts of the job, by name."""

    name: str
    kind: str
    batch: int = 2
    length: int = 256
    prompt: int = 64
    vocabulary: int = 8192
    hidden: int = 512
    layers: int = 3
    kv_heads: int = 8
    accumulation: int = 1
    precision: str = "bf16"
    lora: bool = False
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    evaluation: dict[str, Any] = field(default_factory=dict, hash=False)
    objective: dict[str, Any] = field(default_factory=dict, hash=False)
    more: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def config(self) -> dict[str, Any]:
        """A small Llama."""
        return {
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": 1408,
            "num_hidden_layers": self.layers,
            "num_attention_heads": 8,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.hidden // 8,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
        }

    def asked(self) -> dict[str, Any]:
        """For the process that traces."""
        return {**asdict(self), "config": self.config}

    def job(self) -> Job:
        """For the plan."""
        config = tuple(Dimension(key=key, value=value) for key, value in sorted(self.config.items()))
        lora = Lora(rank=8, targets=("q_proj", "v_proj"), dropout=0.0)
        full = self.settings.get("gradient_checkpointing", self.kind not in ("generate", "evaluate"))
        plain = {"generate": "pytorch", "evaluate": "transformers"}
        job = Job(
            model=Model(name=self.name, family="llama", config=config),
            method=Method(name="lora", lora=lora) if self.lora else Method(),
            precision=PRECISIONS[self.precision],
            batch=Batch(micro=self.batch, sequence=self.length, accumulation=self.accumulation),
            # Trainer's default since transformers 5.
            optimizer=Optimizer(impl="foreach" if self.kind == "generate" else "fused"),
            checkpointing=Checkpointing(mode="full" if full else "none"),
            evaluation=Evaluation(**self.evaluation),
            objective=Objective(name="default" if self.kind in plain else self.kind, **self.objective),  # type: ignore[arg-type]
            framework=Framework(name=plain.get(self.kind, "trl")),
            hardware=Hardware(gpu="a100-sxm4-80gb"),
        )
        return msgspec.structs.replace(job, **self.more)
