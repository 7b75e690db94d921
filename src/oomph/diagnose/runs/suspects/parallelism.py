"""How the model is divided: strategy, offload, prefetch, buckets."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, switched


class Parallelism(Kind):
    """FSDP, ZeRO, tensor, context and pipeline parallelism."""

    name = "parallelism"
    order = 30
    keys = (
        argument(r"fsdp\w*", r"deepspeed\w*", r"zero\w*", "tensor_parallel\\w*", "pipeline_\\w*",
                  "context_parallel\\w*",
                 "expert_parallel\\w*", "data_parallel\\w*", "tp_size", "pp_size", "cp_size", "ep_size", "ddp_\\w+",
                 "strategy", "sharding_strategy", "cpu_offload", "offload_\\w+", "parallelism_config", "device_map",
                 "accelerator_config", "reshard_after_forward", "dp_shard", "dp_replicate"),
        r"arguments\.(?:.+\.)?(?:fsdp_config|deepspeed|zero_optimization|parallelism|parallelism_config|parallel)\..+",
        r"environment\.(?:FSDP_|DS_|DEEPSPEED_|ACCELERATE_).*",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """It decides which bytes a rank has, and how many copies are gathered at a time."""
        del situation
        name = change.key.lower()
        offload = "offload" in name
        if "bucket" in name or "prefetch" in name or "limit_all_gathers" in name:
            effect = "buckets and prefetching hold whole parameters or gradients while they are sent"
        elif offload:
            effect = "offloading moves parameters or optimizer state to main memory"
        else:
            effect = (
                "it decides which parameters, gradients and optimizer states a rank holds, and how many are "
                "gathered at a "
                "time"
            )
        return Judged(
            effect,
            Suspicion.LIKELY,
            direction=-switched(change) if offload else 0,
            phases=("load", "forward", "backward", "optimizer", "save"),
            parts=("alive.before", "alive.between", "alive.added"),
            weight=7.5,
        )
