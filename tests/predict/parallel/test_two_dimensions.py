"""Tensor parallelism within FSDP2 units, against a trace with a mesh of two dimensions."""

from __future__ import annotations

import pytest

from oomph.job.model import Parallel, Precision
from oomph.phases import Phase
from tests.predict.parallel.decoder import Sizes, planned
from tests.predict.parallel.test_sequence_parallel import DIVIDED
from tests.tracing.ranks.running import traced

PROGRAM = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "tensor"))
with torch.device("meta"):
    model = Decoder(LAYERS)
divide(model, mesh["tensor"], False)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
layers = list(model.layers.values())
for layer in layers:
    fully_shard(layer, mesh=mesh["data"], mp_policy=policy, reshard_after_forward=layer is not layers[-1])
fully_shard(model, mesh=mesh["data"], mp_policy=policy)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(2):
    tokens = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    labels = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    optimizer.zero_grad()
    peak()
    pred = model(tokens)
    loss = functional.cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))
    del pred
    forward = peak()
    loss.backward()
    backward = peak()
    optimizer.step()
print(forward, backward, peak())
"""


def test_fsdp_shards_what_tensor_parallelism_divided():
    sizes = Sizes(kv_heads=8, layers=3, words=8000)
    program = sizes.model() + DIVIDED + PROGRAM
    measured = [int(each) for each in traced(program, world=4).printed.split()]
    job = sizes.job(
        Parallel(strategy="fsdp2_full", data=2, tensor=2, sequence_parallel=True),
        precision=Precision(weights="fp32", compute="bf16", reduce="fp32"),
        loss="eager_fp32",
    )
    peaks = planned(job)
    assert peaks[Phase.BACKWARD] == pytest.approx(measured[1], rel=0.005)
    assert peaks[Phase.OPTIMIZER] == pytest.approx(measured[2], rel=0.005)
    # FSDP2 lets the last all-gather's buffer go when the model has returned: before the loss, which is the caller's.
    assert measured[0] * 0.995 < peaks[Phase.FORWARD] < measured[0] * 1.01
