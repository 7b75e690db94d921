"""Shards within a node, copies across nodes."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job, Strategy
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.shard import LEVEL
from oomph.remedy.changes.written import written


@dataclass(frozen=True)
class HybridShard(Change):
    """Shards within a node, copies across nodes: more memory than a full shard, less traffic between nodes."""

    strategy: Strategy
    ranks: int

    code = "hybrid-shard"
    axis = "sharding"
    phases = EVERYWHERE

    @property
    def title(self) -> str:
        """With its value."""
        return f"hybrid sharding: over {self.ranks} ranks of a node, copied across nodes"

    def applies(self, job: Job) -> str | None:
        """Where there are several nodes."""
        if job.parallel.data <= self.ranks or self.ranks < 2 or job.parallel.data % self.ranks:
            return "The data ranks are not several whole nodes."
        if LEVEL[job.parallel.strategy] >= LEVEL["fsdp2_hybrid_shard"]:
            return f"The strategy is {job.parallel.strategy} already, which spreads no less."
        return None

    def apply(self, job: Job) -> Job:
        """The strategy with its group."""
        parallel = replace(job.parallel, strategy=self.strategy, shard_size=self.ranks)
        return replace(job, parallel=parallel)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        table = {
            "torchtitan": "[parallelism]\ndata_parallel_shard_degree = {ranks}\n"
            "data_parallel_replicate_degree = {copies}",
            "axolotl": "dp_shard_size: {ranks}\ndp_replicate_size: {copies}",
            "transformers": 'fsdp="hybrid_shard auto_wrap",',
            "lightning": 'FSDPStrategy(sharding_strategy="HYBRID_SHARD")',
            "": 'mesh = init_device_mesh("cuda", ({copies}, {ranks}), mesh_dim_names=("replicate", "shard"))\n'
            "for block in model.blocks:\n    fully_shard(block, mesh=mesh)\nfully_shard(model, mesh=mesh)",
        }
        return written(job, table, ranks=self.ranks, copies=job.parallel.data // self.ranks)

    def verify(self, job: Job) -> str:
        """The shard."""
        del job
        return f"After wrapping, memory_allocated() is about 1/{self.ranks} of the weights on every rank."
