"""DistributedDataParallel: buckets, counted by hand."""

from __future__ import annotations

from functools import cache

import pytest

from tests.tracing.ranks.running import Rank, traced

WIDTH, LAYERS = 512, 4
#: A layer: weight and bias, float32.
LAYER = WIDTH * WIDTH * 4 + WIDTH * 4
MODEL = LAYERS * LAYER

PROGRAM = f"""
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
model = torch.nn.Sequential(*[torch.nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS})]).cuda()
model = DistributedDataParallel(model, device_ids=[local], bucket_cap_mb=2, OPTIONS)
HOOK
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, {WIDTH}, device="cuda")).sum().backward()
    optimizer.step()
print("done")
"""


@cache
def run(options: str = "", hook: str = "", rank: int = 0) -> Rank:
    return traced(PROGRAM.replace("OPTIONS", options).replace("HOOK", hook), rank=rank)


def test_buckets_are_rebuilt_after_the_first_backward():
    # Reducer: first one bucket for the whole model; then, in the order in which gradients came, buckets that are closed
    # as soon as they reach their size, 1 MiB for the first and bucket_cap_mb for the others (reducer.cpp,
    # compute_bucket_assignment_by_size; distributed.py).
    first = next(one for one in run().blocks() if one["label"] == "DDP bucket 0")
    assert first["size"] == MODEL
    assert first["category"] == "communication"
    # Gradients come as weight then bias of the last layer: 1 MiB is reached by its weight, 2 MiB by two weights and the
    # biases between them, and so on.
    buckets = [one["size"] for one in run().blocks() if one["label"].startswith("DDP bucket")][1:]
    assert sum(buckets) == MODEL
    assert max(buckets) >= 2 * 2**20


@pytest.mark.parametrize(
    "options",
    ["static_graph=True", "find_unused_parameters=True"],
)
def test_options_run(options):
    assert run(options).printed.split() == ["done"]


def test_gradients_that_are_views_of_buckets_have_no_memory_of_their_own():
    own = run().devices["0"]["peak_requested"]
    views = run("gradient_as_bucket_view=True").devices["0"]["peak_requested"]
    # Parameters and buckets, and without views a gradient for each parameter; with them, only what autograd has just
    # made and copies in.
    assert 3 * MODEL <= own < 3 * MODEL + LAYER
    assert 2 * MODEL <= views < 2 * MODEL + 2 * LAYER


def test_parameters_are_broadcast_through_one_flat_copy():
    # _sync_module_states: torch.cat of all parameters, below broadcast_bucket_size (250 MiB).
    assert MODEL in run().sizes(operator="cat")
    assert MODEL not in run("init_sync=False").sizes(operator="cat")


HOOK = """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
model.register_comm_hook(None, default_hooks.bf16_compress_hook)
"""


def test_a_hook_of_the_script_stays():
    # bf16_compress_hook sends a copy in half the bytes.
    assert MODEL // 2 in run(hook=HOOK).sizes(operator="_to_copy")


def test_another_rank_uses_its_own_device():
    assert list(run(rank=2).devices) == ["2"]


ACCUMULATION = f"""
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear({WIDTH}, {WIDTH}).cuda(), device_ids=[0])
x = torch.randn(8, {WIDTH}, device="cuda")
with model.no_sync():
    model(x).sum().backward()
model(x).sum().backward()
print(model.module.weight.grad.shape[0])
"""


def test_accumulation_without_synchronisation_runs():
    assert traced(ACCUMULATION).printed.split() == [str(WIDTH)]


NORM = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(layers).cuda()
model = DistributedDataParallel(model, device_ids=[0])
out = model(torch.randn(2, 3, 18, 18, device="cuda"))
out.sum().backward()
print(*out.shape)
"""


def test_statistics_of_batches_are_shared():
    rank = traced(NORM)
    assert rank.printed.split() == ["2", "8", "16", "16"]
    # The layer's result is as large as its input; its statistics are one float32 for each of 8 channels.
    assert 2 * 8 * 16 * 16 * 4 in rank.sizes(operator="batch_norm_elemt")
    assert rank.sizes(operator="batch_norm_stats") == [8 * 4, 8 * 4]
