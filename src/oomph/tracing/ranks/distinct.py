"""Which ranks of a job need tracing: those whose memory can differ."""

from __future__ import annotations

from oomph.errors import UsageError


def distinct_ranks(world: int, stages: int = 1) -> tuple[int, ...]:
    """The ranks that can have a peak of their own, in order: of each pipeline stage the first and the last.

    Ranks that shard the same model hold equal parts, but for the last, which has what is left over (dim-0 sharding
    cuts into pieces of ceil(n / ranks), torch.chunk), and the first, which has a whole piece and saves. So the first
    one of a stage is its largest. `stages` outermost in the mesh, as torchtitan, Megatron and the documents of PyTorch
    have it: stage s has the ranks from s * world / stages on.

    Raises UsageError where the stages do not divide the ranks.
    """
    if world < 1 or stages < 1 or world % stages:
        raise UsageError(f"{stages} pipeline stages cannot share {world} ranks evenly.")
    each = world // stages
    return tuple(sorted({rank for stage in range(stages) for rank in (stage * each, (stage + 1) * each - 1)}))
