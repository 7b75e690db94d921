"""What ranks tell each other: every other one holds what this one holds."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.tracing.ranks.distinct import distinct_ranks
from oomph.tracing.ranks.mail import VARIABLE, Mail
from tests.tracing.ranks.running import Rank, traced

PROGRAM = """
import datetime
import torch.distributed as dist
from torch.utils.data import DistributedSampler

dist.init_process_group("cpu:gloo,cuda:nccl", timeout=datetime.timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()
gathered = [None] * world
dist.all_gather_object(gathered, {"rank": rank})
print(gathered == [{"rank": rank}] * world)

total = torch.tensor([3.0])
dist.all_reduce(total)
print(total.item() == 3.0 * world)
mean = torch.tensor([3.0])
dist.all_reduce(mean, op=dist.ReduceOp.MAX)
print(mean.item() == 3.0)

parts = [torch.zeros(2, dtype=torch.long, device="cuda") for _ in range(world)]
dist.all_gather(parts, torch.tensor([5, 7], device="cuda"))
print(all(part.tolist() == [5, 7] for part in parts))

work = dist.all_reduce(torch.ones(4, device="cuda"), async_op=True)
work.wait()
print(work.is_completed(), len(work.get_future().wait()))

some = dist.new_group([0, 1], backend="gloo")
print((some != dist.GroupMember.NON_GROUP_MEMBER) == (rank < 2))
dist.barrier()
dist.monitored_barrier(dist.new_group(backend="gloo"))
print(len(list(DistributedSampler(range(12)))) == 12 // world)

dist.broadcast_object_list(names := ["mine"])
print(names)
print(dist.get_backend(), dist.is_nccl_available())
dist.destroy_process_group()
print(dist.is_initialized())
"""


@pytest.fixture(scope="module")
def ranks() -> dict[int, Rank]:
    return {rank: traced(PROGRAM, rank=rank) for rank in (0, 3)}


@pytest.mark.parametrize("number", [0, 3])
def test_collectives_answer_as_if_all_ranks_were_alike(ranks, number):
    lines = ranks[number].printed.splitlines()
    assert lines[:4] == ["True"] * 4
    assert lines[4] == "True 1"
    assert lines[5:7] == ["True", "True"]
    assert lines[7:] == ["['mine']", "cpu:gloo,cuda:nccl True", "False"]


def test_what_another_rank_would_have_sent_is_an_assumption(ranks):
    assert not any("received" in text for text in ranks[0].assumptions)
    assert any("received" in text for text in ranks[3].assumptions)


def test_a_list_of_tensors_is_gathered_into_a_flat_one(ranks):
    # ProcessGroupNCCL::allgather, newLikeFlat: 4 ranks, 2 values of 8 bytes.
    assert ranks[0].sizes(label="") is not None
    assert 4 * 2 * 8 in ranks[0].sizes(category="communication")


WRONG = """
import torch.distributed as dist
dist.init_process_group("nccl", rank=0, world_size=16)
"""


def test_another_world_than_the_traces_is_a_sentence():
    failed = traced(WRONG, may_fail=True).failed
    assert failed.startswith("UsageError: The script asks for world_size=16 where the trace has 4")


PIPELINE = """
import os
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("nccl")
rank = dist.get_rank()
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
model = torch.nn.Linear(64, 64 * (rank + 1) if rank == 0 else 32, bias=False, device=device)
if rank == 1:
    model = torch.nn.Linear(64, 32, bias=False, device=device)
stage = PipelineStage(model, rank, 2, device)
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda out, target: (out - target).square().sum())
if rank == 0:
    schedule.step(torch.randn(8, 64, device=device))
else:
    schedule.step(target=torch.randn(8, 32, device=device), losses=[])
print(*model.weight.grad.shape)
"""


def test_stages_know_each_other_from_the_trace_before(tmp_path):
    told = {VARIABLE: str(tmp_path)}
    first = traced(PIPELINE, world=2, rank=0, environment=told)
    second = traced(PIPELINE, world=2, rank=1, environment=told)
    assert first.printed.split() == ["64", "64"]
    assert second.printed.split() == ["32", "64"]
    assert any("pipeline stage 1 of 2" in note for note in second.notes)
    # Two micro-batches of four rows of 64 float32 values are received.
    assert second.sizes(1, size=4 * 64 * 4) != []


def test_a_later_stage_alone_is_refused_with_a_sentence():
    failed = traced(PIPELINE, world=2, rank=1, may_fail=True).failed
    assert failed.startswith(
        "TraceRefused: Rank 1 runs pipeline stage 1, whose input shapes stage 0 would send"
    )


def test_mail_comes_in_order(tmp_path):
    sender, receiver = Mail(str(tmp_path)), Mail(str(tmp_path))
    sender.post("0-to-1", ["a"])
    sender.post("0-to-1", ["b"])
    assert receiver.take("0-to-1") == ()
    sender.deliver()
    later = Mail(str(tmp_path))
    assert [later.take("0-to-1") for _ in range(3)] == [(["a"],), (["b"],), ()]


def test_without_a_folder_there_is_no_mail(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    mail = Mail()
    mail.post("x", 1)
    mail.deliver()
    assert mail.take("x") == ()


def test_ranks_that_can_differ():
    assert distinct_ranks(1) == (0,)
    assert distinct_ranks(8) == (0, 7)
    assert distinct_ranks(8, stages=4) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert distinct_ranks(16, stages=2) == (0, 7, 8, 15)


def test_stages_must_divide_the_ranks():
    with pytest.raises(UsageError, match="3 pipeline stages cannot share 8 ranks evenly"):
        distinct_ranks(8, 3)


GENERATOR = """
import torch.distributed as dist
dist.init_process_group("nccl")
state = torch.get_rng_state().to("cuda")
dist.broadcast(state, 0)
torch.set_rng_state(state.cpu())
print(torch.equal(state.cpu(), torch.get_rng_state()))
"""


def test_known_values_come_back_from_the_device():
    assert traced(GENERATOR, rank=1).printed.split() == ["True"]
