"""The jobs that are validated: three sizes of models, whole or with adapters, with and without checkpointing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: Model (as oomph ships its configuration), its short name, the type of its weights, batch and tokens. Sizes are such
#: that the large one fits into 40 GiB in most of its jobs; what is predicted not to fit is left out.
SIZES = {
    "small": ("HuggingFaceTB/SmolLM2-135M", "fp32", 8, 1024),
    "medium": ("meta-llama/Llama-3.2-1B", "bf16", 4, 1024),
    "large": ("Qwen/Qwen2.5-3B", "bf16", 2, 2048),
}
#: For the CPU: the same shapes of models, small enough for a test.
TINY: dict[str, dict[str, Any]] = {
    "small": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "medium": {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4},
    "large": {"hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 4},
}
LORA_RANK = 16
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
STEPS = 4


@dataclass(frozen=True)
class Work:
    """One job. `weights`: "fp32" trains under bf16 autocast, "bf16" without. `config` is the model's config.json."""

    name: str
    model: str
    config: dict[str, Any]
    weights: str
    method: str
    checkpointing: bool
    impl: str
    micro: int
    sequence: int
    steps: int = STEPS

    @property
    def autocast(self) -> bool:
        """Mixed precision over fp32 weights."""
        return self.weights == "fp32"

    def write(self, path: Path) -> None:
        """For job.py."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Work:
    """What `write` wrote."""
    return Work(**json.loads(path.read_text(encoding="utf-8")))


#: (method, checkpointing, optimizer): the most telling first, since time may run out.
_WAYS = (
    ("full", False, "foreach"),
    ("lora", False, "fused"),
    ("full", True, "fused"),
    ("lora", True, "foreach"),
    ("full", False, "fused"),
    ("full", True, "foreach"),
)


def works(tiny: bool) -> list[Work]:
    """All jobs, in the order in which they are to run: each way on each size before the next way."""
    return [_work(size, *way, tiny=tiny) for way in _WAYS for size in SIZES]


def _work(size: str, method: str, checkpointing: bool, impl: str, *, tiny: bool) -> Work:
    from oomph.job.config import to_config
    from oomph.job.names import model as named

    model, weights, micro, sequence = SIZES[size]
    config = to_config(named(model))
    if tiny:
        config |= TINY[size]
        config |= {"num_key_value_heads": 2, "head_dim": TINY[size]["hidden_size"] // 4, "vocab_size": 512}
        config |= {"max_position_embeddings": 256}
        config.pop("layer_types", None)
        micro, sequence = 2, 64
    config["use_cache"] = False
    kind = "checkpointed" if checkpointing else "plain"
    name = f"{size}-{method}-{kind}-{impl}"
    return Work(name, model, config, weights, method, checkpointing, impl, micro, sequence)
