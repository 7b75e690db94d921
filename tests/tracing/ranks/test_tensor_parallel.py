"""Tensor and sequence parallel with DTensor: local shards count, global shapes do not."""

from __future__ import annotations

import pytest

from tests.tracing.ranks.running import Rank, traced

WIDTH, WORLD, ROWS = 256, 4, 512
HIDDEN = 4 * WIDTH

PROGRAM = f"""
import os
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module,
)

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm({WIDTH})
        self.up = torch.nn.Linear({WIDTH}, {HIDDEN}, bias=False)
        self.down = torch.nn.Linear({HIDDEN}, {WIDTH}, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

model = Block().cuda()
parallelize_module(model, init_device_mesh("cuda", ({WORLD},)), {{
    "norm": SequenceParallel(sequence_dim=0),
    "up": ColwiseParallel(input_layouts=Shard(0)),
    "down": RowwiseParallel(output_layouts=Shard(0)),
}})
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn({ROWS} // {WORLD}, {WIDTH}, device="cuda")
model(x).sum().backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
print(*model.up.weight.to_local().shape)
"""


@pytest.fixture(scope="module")
def rank() -> Rank:
    return traced(PROGRAM, world=WORLD, rank=1)


def test_weights_and_moments_are_local(rank):
    local = HIDDEN // WORLD * WIDTH * 4
    assert rank.printed.split() == [str(HIDDEN // WORLD), str(WIDTH)]
    assert rank.sizes(1, category="optimizer state").count(local) == 4


def test_sequence_shards_are_gathered_and_reduced(rank):
    whole, part = ROWS * WIDTH * 4, ROWS // WORLD * WIDTH * 4
    # Forward gathers the norm's output for `up`; backward gathers the gradient for `down`.
    assert rank.sizes(1, operator="_c10d_functional.all_gather_into_tensor") == [whole, whole]
    # Forward scatters what `down` made; backward scatters the gradient of the gathered input.
    assert rank.sizes(1, operator="_c10d_functional.reduce_scatter_tensor") == [part, part]
    assert {one["category"] for one in rank.blocks(1, operator="_c10d_functional.reduce_scatter_tensor")} == {
        "communication"
    }


def test_waiting_and_shape_propagation_take_nothing(rank):
    assert rank.sizes(1, operator="_c10d_functional.wait_tensor") == []
    # Nothing in training is as large as the hidden activations of the whole model.
    training = [one["size"] for one in rank.blocks(1) if one["phase"] != "load"]
    assert max(training) < ROWS * HIDDEN * 4


def test_only_the_ranks_own_device_is_used(rank):
    assert list(rank.devices) == ["1"]
