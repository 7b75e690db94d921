"""`python -m tests.predict.diffusion.sharded`: FLUX's class under fully_shard, traced on rank 0; peaks as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tests.predict.diffusion.cases import FLUX, Case
from tests.predict.grid.worker import _peaks

_WRAP = """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
kind = torch.bfloat16 if {mixed} else None
policy = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32 if {mixed} else None)
for layer in [*model.transformer_blocks, *model.single_transformer_blocks]:
    fully_shard(layer, mp_policy=policy, reshard_after_forward={reshards})
fully_shard(model, mp_policy=policy, reshard_after_forward={reshards})
"""


def case_of(settings: dict[str, Any]) -> Case:
    """The case; `mixed` and `reshards` are not its own."""
    more = {name: value for name, value in settings.items() if name not in ("mixed", "reshards", "ranks")}
    more["lora"] = tuple(more.get("lora", ()))
    return Case("flux-sharded", "FluxTransformer2DModel", FLUX, **more)


def traced_peaks(settings: dict[str, Any]) -> dict[str, int]:
    """Peaks by phase on rank 0."""
    import torch
    import torch.distributed.fsdp
    import torch.testing._internal.distributed.fake_pg

    from oomph.hardware.names import gpu
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    card, ranks = gpu("a100-sxm4-80gb"), settings["ranks"]
    traced = TraceSettings(
        gpu=card,
        torch=(2, 13),
        device_bytes=card.total_bytes,
        allocator=AllocatorSettings(),
        device_count=ranks,
        rank=0,
        world=ranks,
        stacks=False,
    )
    session = Session(traced, all_rules())
    with session, contextlib.redirect_stdout(io.StringIO()):
        torch.cuda.set_device(0)
        torch.distributed.init_process_group("nccl")
        made, loop = case_of(settings).program().split("optimizer = ")
        wrap = _WRAP.format(mixed=settings["mixed"], reshards=settings["reshards"])
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.py"
            script.write_text(f"{made}{wrap}optimizer = {loop}")
            runpy.run_path(str(script), {"torch": torch, "accumulation": 1})
    return dict(_peaks(session)["peaks"])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(traced_peaks(json.loads(sys.argv[1]))) + "\n")
