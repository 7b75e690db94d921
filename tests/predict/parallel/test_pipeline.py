"""Ranks of a pipeline against traces of torch.distributed.pipelining's own schedules, and what they do by hand."""

from __future__ import annotations

import msgspec
import pytest

from oomph.errors import UsageError
from oomph.job.model import Batch, Framework, Parallel
from oomph.phases import Phase
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.compose.stages import Action, actions, layers_of_stages
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from oomph.predict.plan import plan
from tests.predict.parallel.decoder import Sizes
from tests.tracing.ranks.running import traced

PROGRAM = """
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

RANK, RANKS, CHUNKS, EACH = {rank}, {ranks}, {chunks}, {each}
dist.init_process_group("nccl")
hidden = torch.empty(BATCH, TOKENS, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
tokens = torch.empty(BATCH, TOKENS, dtype=torch.int64, device="meta")
logits = torch.empty(BATCH, TOKENS, WORDS, dtype=torch.bfloat16, device="meta", requires_grad=True)

def staged(index):
    first, last = index == 0, index == RANKS * EACH - 1
    stage = PipelineStage(
        made({layers}, first, last), index, RANKS * EACH, torch.device("cuda"),
        input_args=(tokens if first else hidden,), output_args=(logits if last else hidden,),
    )
    # Neighbours, which are not there, would say that they know their shapes as well.
    stage._warmup_backward_result = lambda received_result=None: torch.ones(1, dtype=torch.int32)
    return stage

def loss_of(pred, labels):
    return functional.cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))

stages = [staged(RANK + number * RANKS) for number in range(EACH)]
schedule = {schedule}(stages if EACH > 1 else stages[0], CHUNKS, loss_fn=loss_of)
optimizers = [torch.optim.AdamW(each.submod.parameters(), foreach=True) for each in stages]
for step in range(2):
    inputs = torch.zeros(CHUNKS * BATCH, TOKENS, dtype=torch.int64, device="cuda")
    labels = torch.zeros(CHUNKS * BATCH, TOKENS, dtype=torch.int64, device="cuda")
    for optimizer in optimizers:
        optimizer.zero_grad()
    peak()
    more = dict(target=labels, losses=[]) if RANK == RANKS - 1 else {{}}
    schedule.step(*((inputs,) if RANK == 0 else ()), **more)
    both = peak()
    for optimizer in optimizers:
        optimizer.step()
print(both, peak())
"""
CLASSES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved_1f1b": "ScheduleInterleaved1F1B"}
#: Schedule, rank, ranks, micro-batches.
CASES = (
    ("1f1b", 0, 4, 6),
    ("1f1b", 1, 4, 6),
    ("1f1b", 3, 4, 6),
    ("gpipe", 1, 4, 6),
    ("interleaved_1f1b", 0, 2, 4),
    ("interleaved_1f1b", 1, 2, 4),
)


def job(schedule, ranks, chunks, **more):
    each = 2 if schedule.startswith("interleaved") else 1
    sizes = Sizes(layers=ranks * each)
    parallel = Parallel(pipeline=ranks, pipeline_schedule=schedule, **more)
    return sizes.job(parallel, batch=Batch(micro=2, sequence=1024, accumulation=chunks))


def peaks_of(job, rank):
    """Without cuBLAS's workspace, which the traces leave out."""
    sink = PeakSink()
    compose(setup_of(job, variants(job)[0]), sink, stage=rank)
    return {
        phase: peak.bytes - sum(size for (_, name), size in peak.parts.items() if "cuBLAS" in name)
        for phase, peak in sink.peaks().items()
    }


@pytest.mark.parametrize(("schedule", "rank", "ranks", "chunks"), CASES)
def test_phases_are_those_of_a_trace(schedule, rank, ranks, chunks):
    each = 2 if schedule.startswith("interleaved") else 1
    program = Sizes(layers=1).model() + PROGRAM.format(
        rank=rank, ranks=ranks, chunks=chunks, each=each, layers=1, schedule=CLASSES[schedule]
    )
    both, step = (int(word) for word in traced(program, world=ranks, rank=rank).printed.split())
    peaks = peaks_of(job(schedule, ranks, chunks), rank)
    assert max(peaks[Phase.FORWARD], peaks[Phase.BACKWARD]) == pytest.approx(both, rel=0.005)
    assert peaks[Phase.OPTIMIZER] == pytest.approx(step, rel=0.005)


def in_flight(schedule, rank, ranks, chunks):
    most = now = 0
    for action in actions(schedule, rank, ranks, chunks):
        now += 1 if action.kind == "forward" else -1
        most = max(most, now)
    assert now == 0
    return most


def test_1f1b_holds_as_many_micro_batches_as_stages_follow():
    # min(micro-batches, stages from this one on)
    assert [in_flight("1f1b", rank, 4, 8) for rank in range(4)] == [4, 3, 2, 1]
    assert in_flight("gpipe", 0, 4, 8) == 8


def test_interleaved_holds_its_warm_up_and_one():
    # (stages of a rank - 1) * micro-batches of a round + 2 * (ranks after this one), and the one that runs
    assert [in_flight("interleaved_1f1b", rank, 4, 8) for rank in range(4)] == [11, 9, 7, 5]


def test_each_micro_batch_goes_forward_and_back_once_through_each_stage():
    for schedule in CLASSES:
        found = list(actions(schedule, 1, 4, 8))
        assert len(found) == len(set(found))
        for one in found:
            if one.kind == "backward":
                assert found.index(Action(one.stage, "forward", one.chunk)) < found.index(one)


def test_layers_are_split_as_torchtitan_splits_them():
    # 2025-08 on: embedding and output layer are a layer each: (32 + 2) / 4 = 8.5
    assert layers_of_stages(32, 4, "2026-01") == (8, 9, 8, 7)
    # before: the first stage has its share, the last what is left
    assert layers_of_stages(32, 4, "2024-12") == (8, 8, 8, 8)
    assert layers_of_stages(33, 4, "2024-12") == (8, 9, 8, 8)
    with pytest.raises(UsageError, match="without one"):
        layers_of_stages(2, 4, "2026-01")


def test_a_plan_has_each_stage():
    found = plan(job("1f1b", 2, 4, data=2, strategy="ddp"), replay=False)
    assert [each.ranks for each in found.ranks] == ["ranks 0-1 (stage 0)", "ranks 2-3 (stage 1)"]
    assert [each.first_rank for each in found.ranks] == [0, 2]
    assert found.trainable == found.parameters
    assert found.worst.ranks == "ranks 2-3 (stage 1)"  # logits of all micro-batches


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pipeline_schedule": "zero_bubble"}, "zero-bubble"),
        ({"strategy": "fsdp1_full_shard", "data": 2}, "fsdp1_full_shard within pipeline stages"),
    ],
)
def test_what_is_not_modelled_is_named(change, said):
    parallel = Parallel(**{"pipeline": 2, **change})
    refused = Sizes().job(parallel, batch=Batch(micro=2, sequence=1024, accumulation=4))
    assert said in plan(refused, replay=False).unsupported[0]


def test_more_micro_batches_are_more_buffers():
    def peak(chunks):
        asked = job("1f1b", 2, chunks)
        newer = msgspec.structs.replace(
            asked, framework=Framework(name="torchtitan", versions=(("torchtitan-date", "2026.01"),))
        )
        return peaks_of(newer, 0)[Phase.BACKWARD]

    # the first stage: a buffer for each micro-batch's gradients, 2 x 1024 x 2048 in bf16, and its tokens and labels
    assert peak(32) - peak(8) == 24 * ((8 << 20) + 2 * 2 * 1024 * 8)


def test_fewer_micro_batches_than_stages():
    with pytest.raises(UsageError, match="at least as many micro-batches"):
        plan(job("1f1b", 4, 2), replay=False)
