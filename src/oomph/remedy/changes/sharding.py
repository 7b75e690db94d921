"""Which ways of sharding a framework has, from the least that is spread to the most."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.cards import per_node
from oomph.remedy.changes.hybrid_shard import HybridShard
from oomph.remedy.changes.shard import Shard
from oomph.remedy.changes.written import ON_TRAINER, ZERO, dialect, major


def options(job: Job) -> tuple[Change, ...]:
    """What the framework has, from the least that is spread to the most."""
    name = dialect(job)
    old = job.parallel.strategy.startswith("fsdp1") or _has_fsdp1_only(job)
    fsdp2: tuple[Change, ...] = (Shard("fsdp2_no_reshard"), Shard("fsdp2_full"))
    if old:
        fsdp2 = (Shard("fsdp1_shard_grad_op"), Shard("fsdp1_full_shard"))
    hybrid = HybridShard("fsdp1_hybrid_shard" if old else "fsdp2_hybrid_shard", per_node(job))
    zero: tuple[Change, ...] = (Shard("zero1"), Shard("zero2"), Shard("zero3"))
    if job.parallel.strategy in ZERO or name == "deepspeed":
        return zero
    if name in ("torchtitan", "torchtune", "litgpt"):
        return (fsdp2[0], hybrid, fsdp2[1])
    if name in (*ON_TRAINER, "accelerate", "lightning", ""):
        return (zero[0], zero[1], fsdp2[0], hybrid, fsdp2[1], zero[2])
    return zero[:1]


def _has_fsdp1_only(job: Job) -> bool:
    """transformers' own arguments know FSDP2 since 5."""
    version = major(job, "transformers")
    return dialect(job) in ("transformers", "trl", "llamafactory") and version is not None and version < 5
