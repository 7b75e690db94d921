"""FSDP2: what one rank holds, counted by hand."""

from __future__ import annotations

import pytest

from tests.tracing.ranks.running import Rank, traced

WIDTH, LAYERS, WORLD, BATCH = 256, 3, 4, 32
#: A layer without bias: WIDTH * WIDTH values.
LAYER = WIDTH * WIDTH

PROGRAM = f"""
import os
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", ({WORLD},))
with torch.device("meta"):
    model = torch.nn.Sequential(*[torch.nn.Linear({WIDTH}, {WIDTH}, bias=False) for _ in range({LAYERS})])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
for parameter in model.parameters():
    torch.nn.init.normal_(parameter)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    x = torch.randn({BATCH}, {WIDTH}, device="cuda")
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(dist.get_backend(), dist.get_rank(), dist.get_world_size())
"""


@pytest.fixture(scope="module")
def ranks() -> dict[int, Rank]:
    return {rank: traced(PROGRAM, world=WORLD, rank=rank) for rank in (0, 3)}


def test_a_rank_holds_its_share_of_parameters_gradients_and_moments(ranks):
    share = LAYER * 4 // WORLD
    rank = ranks[0]
    assert rank.sizes(category="parameters").count(share) == LAYERS
    assert rank.sizes(category="optimizer state").count(share) == 2 * LAYERS
    # In each of two steps: autograd's gradients of the gathered bfloat16 weights, and the share of them in float32.
    gradients = rank.sizes(category="gradients")
    assert sorted(gradients) == [share] * LAYERS * 2 + [LAYER * 2] * LAYERS * 2


def test_parameters_are_gathered_in_forward_and_again_in_backward(ranks):
    gathered = LAYER * 2
    rank = ranks[0]
    buffers = rank.blocks(label="FSDP all-gather buffer", size=gathered)
    # The last layer of a Sequential is resharded after forward too, and prefetched: twice per layer and step.
    assert len(buffers) == 2 * LAYERS * 2
    assert {one["category"] for one in buffers} == {"communication"}
    assert rank.sizes(label="FSDP gathered parameters") == [gathered] * 2 * LAYERS * 2


def test_gradients_are_reduced_in_float32(ranks):
    assert ranks[0].sizes(label="FSDP reduce-scatter buffer") == [LAYER * 4] * LAYERS * 2


def test_copies_in_and_reductions_have_streams_of_their_own(ranks):
    rank = ranks[0]
    copies = {one["stream"] for one in rank.blocks(label="FSDP all-gather buffer", size=LAYER * 2)}
    reduced = {one["stream"] for one in rank.blocks(category="gradients", size=LAYER * 4 // WORLD)}
    gathered = {one["stream"] for one in rank.blocks(label="FSDP gathered parameters")}
    assert gathered == {0}
    assert len(copies) == 1
    assert len(reduced) == 1
    assert 0 not in copies | reduced
    assert copies != reduced


def test_every_rank_uses_its_own_device_only(ranks):
    assert list(ranks[3].devices) == ["3"]
    assert ranks[3].devices["3"]["peak_allocated"] == ranks[0].devices["0"]["peak_allocated"]


def test_the_script_sees_the_rank_and_the_world_of_the_trace(ranks):
    assert ranks[0].printed.split() == ["nccl", "0", "4"]
    assert ranks[3].printed.split() == ["nccl", "3", "4"]


UNEVEN = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import os
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layer = torch.nn.Linear(64, 10, bias=False, device="cuda")
fully_shard(layer, mesh=init_device_mesh("cuda", (4,)))
print(*layer.weight.to_local().shape)
"""


def test_the_last_rank_has_what_is_left_over():
    # torch.chunk cuts 10 rows for 4 ranks into pieces of ceil(10 / 4) = 3: 3, 3, 3, 1.
    assert [traced(UNEVEN, rank=rank).printed.split() for rank in (0, 3)] == [["3", "64"], ["1", "64"]]


HYBRID = f"""
import os
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
layer = torch.nn.Linear({WIDTH}, {WIDTH}, bias=False, device="cuda")
fully_shard(layer, mesh=mesh)
layer(torch.randn(4, {WIDTH}, device="cuda")).sum().backward()
print(*layer.weight.grad.to_local().shape)
"""


def test_hybrid_sharding_cuts_by_the_inner_mesh_only():
    rank = traced(HYBRID, rank=2)
    assert rank.printed.split() == [str(WIDTH // 2), str(WIDTH)]
    assert rank.sizes(device=2, label="FSDP reduce-scatter buffer") == [LAYER * 4]
    # What is left of it after the reduction over the inner mesh is made on another stream.
    assert [one["stream"] != 0 for one in rank.blocks(2, size=LAYER * 4 // 2, phase="backward")] == [True]


NO_MESH = """
import os
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layer = torch.nn.Linear(64, 8, bias=False)
fully_shard(layer)
print(layer.weight.device_mesh.device_type, layer.weight.to_local().device, *layer.weight.to_local().shape)
"""


def test_without_a_mesh_parameters_go_to_the_gpu():
    assert traced(NO_MESH, rank=2).printed.split() == ["cuda", "cuda:2", "2", "64"]
