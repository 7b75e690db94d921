"""Splitting each layer over ranks."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.cards import per_node
from oomph.remedy.changes.fewer_data_ranks import FLAGS, accumulated, no_room, samples
from oomph.remedy.changes.written import dialect, written

_TENSOR = {
    "torchtitan": "[parallelism]\ntensor_parallel_degree = {size}\n[training]\nglobal_batch_size = {all}",
    "axolotl": "tensor_parallel_size: {size}\ngradient_accumulation_steps: {steps}",
    "torchtune": "tensor_parallel_dim: {size}\ngradient_accumulation_steps: {steps}",
    "megatron": "--tensor-model-parallel-size {size} --sequence-parallel --global-batch-size {all}",
    "": "torch.distributed.tensor.parallel.parallelize_module(block, mesh, {...})   # over {size} ranks",
}


@dataclass(frozen=True)
class TensorParallel(Change):
    """Each layer over `size` ranks of a node, with sequence parallel norms."""

    size: int

    code = "tensor-parallel"
    axis = "model-parallel"
    numerics = "close"
    phases = EVERYWHERE

    @property
    def title(self) -> str:
        """With its value."""
        return f"tensor parallelism over {self.size} ranks, and fewer data ranks"

    def applies(self, job: Job) -> str | None:
        """Where heads divide."""
        if job.parallel.tensor > 1:
            return f"Tensor parallelism is {job.parallel.tensor} already."
        if job.parallel.context > 1:
            return "The sequence is split already."
        if self.size > per_node(job):
            return f"{self.size} ranks are more than a node has."
        for key in ("num_attention_heads", "n_head", "num_key_value_heads"):
            heads = job.model.get(key)
            if isinstance(heads, int) and heads % self.size:
                return f"{self.size} does not divide {key} = {heads}."
        return no_room(job, self.size)

    def apply(self, job: Job) -> Job:
        """Data ranks become tensor ranks."""
        made = accumulated(job, self.size)
        strategy = made.parallel.strategy
        if made.parallel.data == 1:
            strategy = "none"
        return replace(
            made, parallel=replace(made.parallel, tensor=self.size, sequence_parallel=True, strategy=strategy)
        )

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _TENSOR, size=self.size, **samples(self.apply(job)))

    def verify(self, job: Job) -> str:
        """The shard."""
        del job
        return f"Weights of linear modules are DTensors with 1/{self.size} of their elements; losses agree to rounding."


def options(job: Job) -> tuple[Change, ...]:
    """Sizes of 2 to 8, where a flag of the framework is enough."""
    if dialect(job) not in FLAGS:
        return ()
    return tuple(TensorParallel(size) for size in (2, 4, 8) if job.parallel.data % size == 0)
