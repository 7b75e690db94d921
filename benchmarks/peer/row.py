"""A row of measured points as the programs are told of it, and what they answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FULL_SHARDS = ("fsdp1_full_shard", "fsdp1_hybrid_shard", "fsdp2_full", "fsdp2_hybrid_shard", "zero3")
#: Parameters stay whole between forward and backward; gradients and states are sharded.
GRADIENT_SHARDS = ("fsdp1_shard_grad_op", "fsdp2_no_reshard", "zero2")
REPLICAS = ("none", "ddp", "fsdp1_no_shard")
#: Activations that gate: three matrices instead of two.
GATED = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "granite", "olmo",
    "olmo2",
)  # fmt: skip


class CannotError(Exception):
    """The program cannot be told what matters about a row; the text says what."""


@dataclass(frozen=True)
class Reply:
    """Predicted bytes, and what of the row the program was told by its nearest word."""

    predicted: int
    stand_ins: tuple[str, ...] = ()


class Row:
    """A row, with names for what the adapters ask of it."""

    def __init__(self, raw: dict[str, Any], configs: Path) -> None:
        self.raw = raw
        self.id = str(raw["id"])
        self.metric = str(raw["metric"])
        self.config_path = configs / raw["model"]["config"]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.raw[name]
        except KeyError:
            raise AttributeError(name) from None

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's configuration as in config.json."""
        read = json.loads(self.config_path.read_text())
        assert isinstance(read, dict)
        return read

    def dimension(self, *names: str, default: int | None = None) -> int:
        """The first of the configuration's keys that it has. Raises CannotError where it has none."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        if default is None:
            raise CannotError(f"the configuration has no {names[0]}")
        return default

    @property
    def strategy(self) -> str:
        return str(self.parallel["strategy"])

    @property
    def ranks(self) -> int:
        """Ranks that hold different data."""
        return int(self.parallel["data"])

    @property
    def split(self) -> bool:
        """Whether layers or tensors are split over ranks otherwise than by sharding."""
        return any(int(self.parallel.get(name, 1)) > 1 for name in ("tensor", "context", "pipeline"))

    @property
    def gated(self) -> bool:
        return self.config.get("model_type") in GATED

    @property
    def sequence(self) -> int:
        """Tokens of a sample. Raises CannotError where there is no text."""
        if not isinstance(self.seq_len, int):
            raise CannotError("the row has no sequence length")
        return self.seq_len

    def decoder(self) -> None:
        """Raises CannotError for a model that is not a stack of decoder layers."""
        if "num_hidden_layers" not in self.config or self.config.get("model_type") in ("t5", "bart"):
            raise CannotError("the model is no plain stack of layers")

    def lora_parameters(self) -> int:
        """Parameters of the adapters: rank x (inputs + outputs) of every target. Raises CannotError for other targets
        than the seven linear layers of a Llama block and its head."""
        hidden = self.dimension("hidden_size")
        heads = self.dimension("num_attention_heads")
        head = self.dimension("head_dim", default=hidden // heads)
        keys = self.dimension("num_key_value_heads", "num_kv_heads", default=heads) * head
        inner = self.dimension("intermediate_size", default=4 * hidden)
        sides = {
            "q_proj": hidden + heads * head,
            "k_proj": hidden + keys,
            "v_proj": hidden + keys,
            "o_proj": hidden + heads * head,
            "gate_proj": hidden + inner,
            "up_proj": hidden + inner,
            "down_proj": hidden + inner,
        }
        targets = [str(each) for each in self.lora["target_modules"]]
        head_too = hidden + self.dimension("vocab_size") if "lm_head" in targets else 0
        targets = [each for each in targets if each != "lm_head"]
        if not set(targets) <= sides.keys():
            raise CannotError(f"adapters on {', '.join(sorted(set(targets) - sides.keys()))}")
        layers = self.dimension("num_hidden_layers")
        return int(self.lora["rank"]) * (layers * sum(sides[each] for each in targets) + head_too)
