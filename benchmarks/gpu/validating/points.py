"""What was measured, as rows of a file of points (the schema of SCHEMA.md beside the published ones)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.gpu.validating.works import LORA_RANK, LORA_TARGETS, Work
from oomph.errors import OomphError
from oomph.evidence.run.data import RunData
from oomph.phases import Phase

#: What a point counts: a row knows no evaluation, which is compared by itself.
TRAINING = (Phase.LOAD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
SOURCE = "oomph validate (benchmarks/gpu/validate.py)"


def rows(work: Work, data: RunData, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for what was allocated at most, and one for what was reserved."""
    rank = data.ranks[min(data.ranks)]
    phases = [summary for phase, summary in rank.summaries.items() if phase in TRAINING]
    allocated = max((each.peak_allocated_bytes for each in phases), default=0)
    reserved = max((each.peak_reserved_bytes for each in phases), default=0)
    base = row(work, facts)
    return [
        {**base, "id": f"validate-{work.name}", "metric": "max_allocated", "value_bytes": allocated},
        {**base, "id": f"validate-{work.name}-reserved", "metric": "max_reserved", "value_bytes": reserved},
    ]


def row(work: Work, facts: dict[str, Any]) -> dict[str, Any]:
    """The job of a row, without what was measured."""
    adapters = work.method == "lora"
    versions = ", ".join(f"{name} {version.partition('+')[0]}" for name, version in facts["versions"].items())
    return {
        "source": SOURCE,
        "trust": "high",
        "model": {"name": work.model, "config": f"{work.name.partition('-')[0]}.json"},
        "gpu": gpu_name(facts["gpu"]),
        "num_gpus": 1,
        "parallel": {
            "strategy": "none", "data": 1, "tensor": 1, "context": 1, "pipeline": 1, "cpu_offload": "none",
        },
        "method": work.method,
        "lora": {"rank": LORA_RANK, "target_modules": list(LORA_TARGETS), "dtype": "fp32", "dropout": 0.0}
        if adapters
        else None,
        "quantization": None,
        "precision": {
            "weights": work.weights,
            "compute": "bf16",
            "autocast": work.autocast,
            "master_weights": None,
            "grads": "fp32" if adapters else work.weights,
        },
        "optimizer": {
            "name": "adamw",
            "impl": work.impl,
            "state_dtype": "fp32" if adapters else work.weights,
            "offload": False,
        },
        "checkpointing": "full" if work.checkpointing else "none",
        "activation_offload": False,
        "attention": "sdpa_flash",
        "loss": "eager_fp32",
        "compile": False,
        "micro_batch": work.micro,
        "seq_len": work.sequence,
        "image_size": None,
        "grad_accum": 1,
        "uncertainty": "a loop of its own around transformers' model, not its Trainer",
        "framework": versions,
        "inferred": [],
    }  # fmt: skip


def gpu_name(name: str) -> str:
    """The card as points have it; "unspecified" for one that is not known (the CPU)."""
    from oomph.hardware.names import gpu

    try:
        return gpu(name).name.removeprefix("NVIDIA ").replace(" ", "-") if _known(name) else "unspecified"
    except OomphError:
        return "unspecified"


def _known(name: str) -> bool:
    """Whether the name without NVIDIA's own still means that card, which is how points call it."""
    from oomph.hardware.names import gpu

    its = gpu(name)
    return gpu(its.name.removeprefix("NVIDIA ").replace(" ", "-")).name == its.name


def write(folder: Path, works: list[Work], points: list[dict[str, Any]]) -> Path:
    """points.jsonl, and the configurations beside it."""
    configs = folder / "configs"
    configs.mkdir(exist_ok=True)
    for work in works:
        file = configs / f"{work.name.partition('-')[0]}.json"
        file.write_text(json.dumps(work.config, indent=1) + "\n", encoding="utf-8")
    path = folder / "points.jsonl"
    path.write_text("".join(json.dumps(point) + "\n" for point in points), encoding="utf-8")
    return path
