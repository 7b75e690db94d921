"""What is compared: a case is one training set-up, told to PyTorch (`loop.py`) and to the plan (`job`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

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
    Optimizer,
    Parallel,
    Precision,
    Quantization,
)

PRECISIONS = {
    "fp32": Precision(),
    "bf16": Precision(weights="bf16", compute="bf16"),
    "bf16-autocast": Precision(weights="fp32", compute="bf16", autocast=True),
}
LAYERS, HIDDEN, INTERMEDIATE, HEADS, HEAD_DIM, VOCABULARY = 3, 512, 1408, 8, 64, 8192
#: Families whose configurations have other names than Llama's.
_NAMES: dict[str, dict[str, str]] = {
    "gpt2": {
        "hidden_size": "n_embd",
        "intermediate_size": "n_inner",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
    },
    "opt": {"intermediate_size": "ffn_dim"},
}
_MORE: dict[str, dict[str, Any]] = {
    "opt": {"word_embed_proj_dim": HIDDEN, "do_layer_norm_before": True},
    "phi3": {"pad_token_id": 0},
}
#: What has as many keys and values as queries.
NOT_GROUPED = ("gpt2", "opt", "gpt_neox", "phi")
#: Whose embedding's weight is always that of the output layer, unless a case says otherwise.
_TIED = ("gpt2", "opt")


@dataclass(frozen=True)
class Case:
    """A set-up. `frozen`: prefixes of parameters that do not train. `lora`: the modules that have adapters. `ranks`
    with `strategy` (a name of `Parallel.strategy`). `optimizer` and `impl` as in `Optimizer`."""

    name: str
    family: str = "llama"
    kv_heads: int = 2
    tied: bool = False
    batch: int = 2
    sequence: int = 256
    precision: str = "bf16"
    attention: str = "sdpa"
    checkpointing: bool = False
    reentrant: bool = False
    optimizer: str = "adamw"
    impl: str = "foreach"
    momentum: float = 0.0
    accumulation: int = 1
    frozen: tuple[str, ...] = ()
    lora: tuple[str, ...] = ()
    dropout: float = 0.0
    lora_dtype: str = "fp32"
    quantized: str = ""
    double: bool = False
    loss: str = "default"
    strategy: str = "none"
    ranks: int = 1
    view: bool = False
    evaluates: bool = True
    more: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration under the family's own names."""
        plain = {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": self.tied,
        }
        if self.family not in NOT_GROUPED:
            plain["num_key_value_heads"] = self.kv_heads
        if self.family in ("llama", "mistral", "qwen2", "qwen3", "gemma"):
            plain["head_dim"] = HEAD_DIM
        names = _NAMES.get(self.family, {})
        return {
            **{names.get(key, key): value for key, value in plain.items()},
            **_MORE.get(self.family, {}),
            **self.more,
        }

    def asked(self) -> dict[str, Any]:
        """For the process that traces."""
        return {**asdict(self), "config": self.config}

    def job(self) -> Job:
        """For the plan."""
        precision = PRECISIONS[self.precision]
        if self.strategy.startswith("fsdp") and self.precision == "bf16-autocast":
            precision = Precision(weights="fp32", compute="bf16", reduce="fp32")
        return Job(
            model=Model(
                name=self.name,
                family=self.family,
                config=tuple(Dimension(key=key, value=value) for key, value in sorted(self.config.items())),
            ),
            method=self._method(),
            precision=precision,
            batch=Batch(micro=self.batch, sequence=self.sequence, accumulation=self.accumulation),
            optimizer=Optimizer(
                name=self.optimizer,
                impl=self.impl,  # type: ignore[arg-type]
                momentum=self.momentum,
                state="int8" if self.impl in ("bnb", "bnb_paged") else None,
            ),
            checkpointing=Checkpointing(
                mode="full" if self.checkpointing else "none", reentrant=self.reentrant
            ),
            parallel=Parallel(
                strategy=self.strategy,  # type: ignore[arg-type]
                data=self.ranks,
                gradient_as_bucket_view=self.view,
                use_orig_params=True,
                # The loop's: `no_sync` under DDP, none under FSDP.
                sync_each_batch=self.strategy != "ddp",
            ),
            attention=self.attention,  # type: ignore[arg-type]
            loss=self.loss,  # type: ignore[arg-type]
            evaluation=Evaluation(batch=self.batch if self.evaluates else None),
            framework=Framework(name="pytorch", versions=(("torch", "2.13.0"), ("transformers", "5.24.0"))),
            hardware=Hardware(gpu="a100-80gb", gpus=self.ranks, per_node=max(1, self.ranks)),
        )

    def _method(self) -> Method:
        quantization = (
            Quantization(kind=self.quantized, double=self.double)  # type: ignore[arg-type]
            if self.quantized
            else None
        )
        if not self.lora:
            return Method(frozen=self.frozen)
        lora = Lora(
            rank=8,
            targets=self.lora,
            dropout=self.dropout,
            dtype=self.lora_dtype,  # type: ignore[arg-type]
        )
        return Method(name="qlora" if quantization else "lora", lora=lora, quantization=quantization)
