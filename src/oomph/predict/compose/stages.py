"""Pipeline stages: which layers each has, and in which order its micro-batches run.

Sources: torchtitan's generate_split_points (parallelisms/pipelining_utils.py, up to July 2025) and
generate_llm_fqn_per_model_part (distributed/pipeline_parallel.py, from 2025-07-30); torch/distributed/pipelining/
schedules.py of PyTorch 2.13 (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B). docs/terms/pipeline-parallel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oomph.errors import UsageError
from oomph.job.model import Job

#: Stages of one rank in schedules that go round (torchtitan's default where layers per stage are not given).
_ROUNDS = 2
#: Embedding and output layer count as a layer each from here on.
_WEIGHTED = "2025-08"


@dataclass(frozen=True)
class Action:
    """One micro-batch through one of the rank's stages (by its place among them), forward or backward."""

    stage: int
    kind: Literal["forward", "backward"]
    chunk: int


def stages_per_rank(job: Job) -> int:
    """How many stages a rank has."""
    return _ROUNDS if job.parallel.pipeline_schedule == "interleaved_1f1b" else 1


def ranks_of(job: Job, stage: int) -> str:
    """The ranks that are alike, for people: those of one place in the pipeline follow one another (torchtitan's mesh
    has the pipeline outermost)."""
    count, ranks = job.parallel.ranks, job.parallel.pipeline
    if ranks == 1:
        return "the only rank" if count == 1 else f"all {count} ranks"
    each = count // ranks
    first, last = stage * each, (stage + 1) * each - 1
    who = f"rank {first}" if each == 1 else f"ranks {first}-{last}"
    places = [str(stage + number * ranks) for number in range(stages_per_rank(job))]
    return f"{who} (stage{'s' if len(places) > 1 else ''} {' and '.join(places)})"


def layers_of_stages(layers: int, stages: int, month: str) -> tuple[int, ...]:
    """Layers of each stage, as torchtitan of that month ("2025-06") splits them. Raises UsageError, beginning with
    "unsupported:", where a stage would have none."""
    found = _weighted(layers, stages) if month >= _WEIGHTED else _split(layers, stages)
    if min(found) < 1:
        raise UsageError(
            f"unsupported: {layers} layers on {stages} pipeline stages leave a stage without one; `oomph trace` runs "
            "the training script itself."
        )
    return found


def _weighted(layers: int, stages: int) -> tuple[int, ...]:
    """Embedding and output layer count as a layer; the first stages have one more where it does not come out even."""
    each, more = divmod(layers + 2, stages)
    if stages == 1:
        return (layers,)
    sizes = [each + (number < more) for number in range(stages)]
    sizes[0] -= 1
    sizes[-1] -= 1
    return tuple(sizes)


def _split(layers: int, stages: int) -> tuple[int, ...]:
    """The first stage has no more than its share, the next ones one more where it does not come out even."""
    each, more = divmod(layers, stages)
    sizes = [each] + [each + (number < more) for number in range(stages - 2)]
    return (*sizes, layers - sum(sizes)) if stages > 1 else (layers,)


def actions(schedule: str, rank: int, ranks: int, chunks: int) -> Sequence[Action]:
    """What a rank does in one step. Raises UsageError for a schedule that is not modelled, or that does not go with so
    few micro-batches."""
    if schedule == "gpipe":
        return [
            *(Action(0, "forward", chunk) for chunk in range(chunks)),
            *(Action(0, "backward", chunk) for chunk in range(chunks)),
        ]
    if schedule == "1f1b":
        if chunks < ranks:
            raise UsageError(
                f"1F1B needs at least as many micro-batches (accumulation: {chunks}) as stages ({ranks})."
            )
        return _one_by_one(min(chunks, ranks - rank), chunks)
    if schedule == "interleaved_1f1b":
        return _interleaved(rank, ranks, chunks)
    raise UsageError(f"unsupported: the pipeline schedule {schedule}.")


def _one_by_one(warmup: int, chunks: int) -> list[Action]:
    """So many forwards, then a backward and a forward in turns, then the backwards that are left."""
    found = [Action(0, "forward", chunk) for chunk in range(warmup)]
    for chunk in range(chunks):
        found.append(Action(0, "backward", chunk))
        if warmup + chunk < chunks:
            found.append(Action(0, "forward", warmup + chunk))
    return found


def _interleaved(rank: int, ranks: int, chunks: int) -> list[Action]:
    """As ScheduleInterleaved1F1B: rounds of about as many micro-batches as ranks go through one stage after another."""
    rounds = max(1, chunks // ranks)
    if chunks % rounds:
        raise UsageError(
            f"Interleaved 1F1B needs micro-batches (accumulation: {chunks}) in {rounds} equal rounds."
        )
    size = chunks // rounds
    total = _ROUNDS * chunks
    warmup = min((_ROUNDS - 1) * size + 2 * (ranks - 1 - rank), total)
    counts = {kind: [0] * _ROUNDS for kind in ("forward", "backward")}

    def next_one(kind: Literal["forward", "backward"], place: int) -> Action:
        stage = place // size % _ROUNDS
        stage = stage if kind == "forward" else _ROUNDS - 1 - stage
        chunk = counts[kind][stage]
        counts[kind][stage] += 1
        return Action(stage, kind, chunk)

    found = [next_one("forward", place) for place in range(warmup)]
    for place in range(total):
        if warmup + place < total:
            found.append(next_one("forward", warmup + place))
        found.append(next_one("backward", place))
    return found
