"""Splitting a layer's tensors, or a sequence, over ranks."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.cards import per_node
from oomph.remedy.changes.written import dialect, written

_TENSOR = {
    "torchtitan": "[parallelism]\ntensor_parallel_degree = {size}\n[training]\nglobal_batch_size = {all}",
    "axolotl": "tensor_parallel_size: {size}\ngradient_accumulation_steps: {steps}",
    "torchtune": "tensor_parallel_dim: {size}\ngradient_accumulation_steps: {steps}",
    "megatron": "--tensor-model-parallel-size {size} --sequence-parallel --global-batch-size {all}",
    "": "torch.distributed.tensor.parallel.parallelize_module(block, mesh, {...})   # over {size} ranks",
}
_CONTEXT = {
    "torchtitan": "[parallelism]\ncontext_parallel_degree = {size}\n[training]\nglobal_batch_size = {all}",
    "axolotl": "context_parallel_size: {size}\ngradient_accumulation_steps: {steps}",
    "megatron": "--context-parallel-size {size} --global-batch-size {all}",
    "": "from torch.distributed.tensor.experimental import context_parallel\n\n"
    "with context_parallel(mesh, buffers=[ids, labels], buffer_seq_dims=[1, 1]):   # over {size} ranks",
}
#: Whose flag is enough; elsewhere model and data have to be prepared, which no line does.
_FLAGS = ("torchtitan", "axolotl", "megatron", "torchtune")
#: With a full shard over the data ranks (FSDP), or none.
_WITH = ("none", "ddp", "fsdp2_full", "fsdp2_no_reshard", "fsdp2_hybrid_shard")


def _accumulated(job: Job, size: int) -> Job:
    """Fewer data ranks: as many more micro-batches, so that a step sees the same samples."""
    parallel = replace(job.parallel, data=job.parallel.data // size)
    batch = replace(job.batch, accumulation=job.batch.accumulation * size)
    return replace(job, parallel=parallel, batch=batch)


def _samples(job: Job) -> dict[str, int]:
    """The samples of a step, and the forwards of it."""
    batch = job.batch
    return {"steps": batch.accumulation, "all": batch.micro * batch.accumulation * job.parallel.data}


def _no_room(job: Job, size: int) -> str | None:
    if job.parallel.data % size:
        return f"{job.parallel.data} data ranks cannot be divided into groups of {size}."
    if job.parallel.strategy not in _WITH:
        return f"It goes with FSDP2 or without sharding, not with {job.parallel.strategy}."
    if job.method.quantization is not None:
        return "Quantised weights are not split."
    if job.optimizer.impl in ("bnb", "bnb_paged", "torchao", "in_backward"):
        return f"The optimizer ({job.optimizer.impl}) does not step DTensors."
    return None


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
        return _no_room(job, self.size)

    def apply(self, job: Job) -> Job:
        """Data ranks become tensor ranks."""
        made = _accumulated(job, self.size)
        strategy = made.parallel.strategy
        if made.parallel.data == 1:
            strategy = "none"
        return replace(
            made, parallel=replace(made.parallel, tensor=self.size, sequence_parallel=True, strategy=strategy)
        )

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _TENSOR, size=self.size, **_samples(self.apply(job)))

    def verify(self, job: Job) -> str:
        """The shard."""
        del job
        return f"Weights of linear modules are DTensors with 1/{self.size} of their elements; losses agree to rounding."


@dataclass(frozen=True)
class ContextParallel(Change):
    """Each sequence over `size` ranks."""

    size: int

    code = "context-parallel"
    axis = "model-parallel"
    numerics = "close"
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})

    @property
    def title(self) -> str:
        """With its value."""
        return f"context parallelism over {self.size} ranks, and fewer data ranks"

    def applies(self, job: Job) -> str | None:
        """Where the sequence divides."""
        if job.parallel.context > 1 or job.parallel.tensor > 1:
            return "A sequence, or a layer, is split already."
        if job.batch.sequence is None or job.batch.sequence % (2 * self.size):
            return f"The sequence does not divide into 2 x {self.size} parts."
        if job.attention not in ("sdpa", "sdpa_flash", "sdpa_efficient"):
            return f"It goes with SDPA's flash kernels, not with {job.attention}."
        return _no_room(job, self.size)

    def apply(self, job: Job) -> Job:
        """Data ranks become context ranks; FSDP shards over both."""
        made = _accumulated(job, self.size)
        return replace(made, parallel=replace(made.parallel, context=self.size))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _CONTEXT, size=self.size, **_samples(self.apply(job)))

    def verify(self, job: Job) -> str:
        """The shape."""
        del job
        return f"Hidden states have 1/{self.size} of the tokens on every rank; losses agree to rounding."


def options(job: Job) -> tuple[Change, ...]:
    """Sizes of 2 to 8, where a flag of the framework is enough."""
    name = dialect(job)
    if name not in _FLAGS:
        return ()
    sizes = [size for size in (2, 4, 8) if job.parallel.data % size == 0]
    made: list[Change] = [TensorParallel(size) for size in sizes]
    if name != "torchtune":
        made += [ContextParallel(size) for size in sizes]
    return tuple(made)
