"""What torchtitan says of its job while it starts, as the arguments that it was given.

Lines of torchtitan/train.py, distributed/parallel_dims.py and distributed/activation_checkpoint.py (2025), such as
"Model llama3 8B size: 8,030,261,248 total parameters".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_MODEL = re.compile(
    r"\bModel (llama\w{0,10}|qwen\w{0,10}|deepseek\w{0,10}) (\d[\w.]{0,12}) size: [\d,]{1,20} total param"
)
_START = re.compile(
    r"\blocal batch size:? (\d{1,6}), global batch size:? (\d{1,8}), sequence length:? (\d{1,8})\b"
)
_MESH = re.compile(r"\bBuilding \d-D device mesh with \[([^\]]{1,100})\], \[([\d, ]{1,40})\]")
_CHECKPOINTING = re.compile(r"\bApplied (selective|full) activation checkpointing to the model")
_DEGREES = {
    "dp_shard": "data_parallel_shard_degree",
    "dp_replicate": "data_parallel_replicate_degree",
    "tp": "tensor_parallel_degree",
    "cp": "context_parallel_degree",
    "pp": "pipeline_parallel_degree",
}


def arguments(lines: Sequence[str]) -> Iterator[str]:
    """The arguments as JSON; nothing unless model, batch, sequence and mesh are all said."""
    model = start = mesh = None
    checkpointing = "none"
    for line in lines:
        if "Model " in line:
            model = _MODEL.search(line) or model
        elif "local batch size" in line:
            start = _START.search(line) or start
        elif "device mesh" in line:
            mesh = _MESH.search(line) or mesh
        elif "activation checkpointing" in line:
            applied = _CHECKPOINTING.search(line)
            checkpointing = applied[1] if applied else checkpointing
    if model is None or start is None or mesh is None:
        return
    names = re.findall(r"\w+", mesh[1])
    sizes = [int(size) for size in re.findall(r"\d{1,6}", mesh[2])]
    if len(names) != len(sizes) or not set(names) <= set(_DEGREES):
        return
    degrees = {_DEGREES[name]: size for name, size in zip(names, sizes, strict=True)}
    yield json.dumps(
        {
            "model": {"name": model[1], "flavor": model[2]},
            "training": {
                "local_batch_size": int(start[1]),
                "global_batch_size": int(start[2]),
                "seq_len": int(start[3]),
            },
            "parallelism": {"data_parallel_shard_degree": 1, **degrees},
            "activation_checkpoint": {"mode": checkpointing},
        }
    )
