"""FullyShardedDataParallel: flat parameters, counted by hand."""

from __future__ import annotations

from functools import cache

from tests.tracing.ranks.running import Rank, traced

WIDTH, LAYERS, WORLD = 256, 3, 4
#: A layer with bias, in values; 65,792 is divided by four without rest.
LAYER = WIDTH * WIDTH + WIDTH

PROGRAM = f"""
import os
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FullyShardedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS})]),
    auto_wrap_policy=ModuleWrapPolicy([torch.nn.Linear]),
    device_id=torch.cuda.current_device(),
    OPTIONS
)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    model(torch.randn(8, {WIDTH}, device="cuda")).sum().backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
    print(len(model.state_dict()))
print(sum(one.numel() for one in model.parameters()))
"""


@cache
def run(options: str = "", rank: int = 0) -> Rank:
    return traced(PROGRAM.replace("OPTIONS", options), world=WORLD, rank=rank)


def test_a_rank_holds_its_share():
    rank = run()
    state, own = rank.printed.split()
    assert int(state) == 2 * LAYERS
    assert int(own) == LAYERS * LAYER // WORLD
    assert rank.sizes(category="optimizer state").count(LAYER * 4 // WORLD) == 2 * LAYERS


def test_flat_parameters_are_gathered_on_a_stream_of_their_own():
    gathered = run().blocks(label="FSDP gathered parameters", size=LAYER * 4)
    in_training = [one for one in gathered if one["phase"] in ("forward", "backward")]
    streams = [one["stream"] for one in in_training]
    # Made once and emptied at the first forward; gathered in forward and in backward of two steps; and for the state
    # dict, for which FSDP uses the stream that computes (_unshard_param_utils.py).
    assert streams.count(0) == LAYERS + LAYERS
    assert len(streams) == LAYERS + 2 * 2 * LAYERS + LAYERS
    assert len(set(streams)) == 2


def test_gradients_are_sharded_on_another_stream():
    rank = run()
    share = [one for one in rank.blocks(category="gradients") if one["size"] == LAYER * 4 // WORLD]
    gathering = {one["stream"] for one in rank.blocks(label="FSDP gathered parameters") if one["stream"]}
    assert gathering.isdisjoint({one["stream"] for one in share})


def test_the_note_says_what_depends_on_the_speed_of_a_gpu():
    assert any("record_stream" in note for note in run().notes)


def test_mixed_precision_gathers_half_the_bytes():
    options = "mixed_precision=MixedPrecision(param_dtype=torch.bfloat16), use_orig_params=True"
    training = [
        one
        for one in run(options, rank=1).blocks(1, label="FSDP gathered parameters")
        if one["phase"] in ("forward", "backward")
    ]
    assert {one["size"] for one in training} >= {LAYER * 2}


STATES = f"""
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

dist.init_process_group("nccl")
norm = torch.nn.BatchNorm1d({WIDTH}, affine=False)
layers = torch.nn.Sequential(torch.nn.Linear({WIDTH}, {WIDTH}), norm)
model = FullyShardedDataParallel(layers, device_id=0, use_orig_params=True, sync_module_states=True)
print(norm.running_mean.device)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(8, {WIDTH}, device="cuda")).sum().backward()
optimizer.step()
with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
    print(FullyShardedDataParallel.optim_state_dict(model, optimizer))
"""


def test_states_of_other_ranks_are_not_made_up():
    rank = traced(STATES, world=WORLD)
    lines = rank.printed.splitlines()
    # The buffer was made on the CPU; FSDP gave it data on the GPU.
    assert lines[0] == "cuda:0"
    # The bias, in the last rank's shard, has no state here. Two float32 moments of the whole unit are taken for it.
    assert lines[1] == "{'state': {}, 'param_groups': []}"
    assert rank.sizes(operator="gathered optimizer state") == [2 * LAYER * 4]


def test_without_sharding_nothing_is_cut():
    rank = run("sharding_strategy=ShardingStrategy.NO_SHARD")
    assert rank.printed.split()[1] == str(LAYERS * LAYER)
