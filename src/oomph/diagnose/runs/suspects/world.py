"""How many ranks share the work: sharded state is divided by them, replicas are not."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, ratio, sign


class World(Kind):
    """World size, nodes, GPUs per node."""

    name = "world size"
    order = 25
    keys = (
        r"world_size",
        r"environment\.(?:LOCAL_)?WORLD_SIZE",
        r"environment\.SLURM_(?:JOB_NUM_NODES|JOB_CPUS_PER_NODE|NNODES|NTASKS|GPUS|GPUS_ON_NODE|NTASKS_PER_NODE|JOB_GPUS)",
        r"environment\.GROUP_WORLD_SIZE",
        argument("num_processes", "nproc_per_node", "nnodes", "num_nodes", "devices", "num_machines", "gpus",
                 "num_gpus"),
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Fewer ranks: larger shards under FSDP and ZeRO, the same under DDP."""
        del situation
        by = ratio(change)
        nodes = "NODE" in change.key.upper() or "machine" in change.key
        return Judged(
            "what FSDP or ZeRO shard of parameters, gradients and optimizer state is divided by the ranks (DDP divides "
            "nothing); NCCL's buffers, outside PyTorch, grow with ranks and nodes",
            Suspicion.LIKELY if not nodes else Suspicion.POSSIBLE,
            direction=0 if by is None else -sign(by - 1),
            phases=("load", "forward", "backward", "optimizer", "save"),
            parts=("alive.before", "alive.between", "alive.added"),
            weight=7.0,
        )
