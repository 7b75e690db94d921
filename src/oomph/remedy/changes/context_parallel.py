"""Splitting each sequence over ranks."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.fewer_data_ranks import FLAGS, accumulated, no_room, samples
from oomph.remedy.changes.written import dialect, written

_CONTEXT = {
    "torchtitan": "[parallelism]\ncontext_parallel_degree = {size}\n[training]\nglobal_batch_size = {all}",
    "axolotl": "context_parallel_size: {size}\ngradient_accumulation_steps: {steps}",
    "megatron": "--context-parallel-size {size} --global-batch-size {all}",
    "": "from torch.distributed.tensor.experimental import context_parallel\n\n"
    "with context_parallel(mesh, buffers=[ids, labels], buffer_seq_dims=[1, 1]):   # over {size} ranks",
}


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
        return no_room(job, self.size)

    def apply(self, job: Job) -> Job:
        """Data ranks become context ranks; FSDP shards over both."""
        made = accumulated(job, self.size)
        return replace(made, parallel=replace(made.parallel, context=self.size))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _CONTEXT, size=self.size, **samples(self.apply(job)))

    def verify(self, job: Job) -> str:
        """The shape."""
        del job
        return f"Hidden states have 1/{self.size} of the tokens on every rank; losses agree to rounding."


def options(job: Job) -> tuple[Change, ...]:
    """Sizes of 2 to 8, where a flag of the framework is enough."""
    if dialect(job) not in FLAGS or dialect(job) == "torchtune":
        return ()
    return tuple(ContextParallel(size) for size in (2, 4, 8) if job.parallel.data % size == 0)
