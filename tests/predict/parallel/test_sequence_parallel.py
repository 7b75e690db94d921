"""Tensor parallelism with the sequence divided, against traces in which torch.distributed.tensor.parallel divides the
same model as torchtitan does."""

from __future__ import annotations

import pytest

from oomph.job.model import Parallel
from oomph.phases import Phase
from tests.predict.parallel.decoder import Sizes, planned
from tests.tracing.ranks.running import traced

DIVIDED = """
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module,
)

def divide(model, mesh, parallel_loss):
    logits = Shard(-1) if parallel_loss else Replicate()
    parallelize_module(model, mesh, {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=logits, use_local_output=not parallel_loss
        ),
    })
    for layer in model.layers.values():
        parallelize_module(layer, mesh, {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(
                input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
            ),
            "attention.wq": ColwiseParallel(),
            "attention.wk": ColwiseParallel(),
            "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            ),
            "feed_forward.w1": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
            "feed_forward.w3": ColwiseParallel(),
        })
"""
PROGRAM = """
from torch.distributed.device_mesh import init_device_mesh

PARALLEL_LOSS = {loss}
model = made(LAYERS)
divide(model, init_device_mesh("cuda", ({ranks},)), PARALLEL_LOSS)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(2):
    tokens = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    labels = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    optimizer.zero_grad()
    with loss_parallel() if PARALLEL_LOSS else nullcontext():
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

CASES = {
    "logits gathered": (2, False, Sizes()),
    "four ranks": (4, False, Sizes(kv_heads=8, batch=1, tokens=2048)),
    "loss parallel": (2, True, Sizes(kv_heads=4)),
    "blocks alone": (4, True, Sizes(words=256, kv_heads=8, tokens=4096)),
}


@pytest.mark.parametrize("name", CASES)
def test_phases_are_those_of_a_trace(name):
    ranks, loss, sizes = CASES[name]
    program = sizes.model() + DIVIDED + PROGRAM.format(ranks=ranks, loss=loss)
    traced_peaks = [int(each) for each in traced(program, world=ranks).printed.split()]
    job = sizes.job(
        Parallel(tensor=ranks, sequence_parallel=True), loss="loss_parallel" if loss else "eager_fp32"
    )
    peaks = planned(job)
    phases = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    assert [peaks[phase] for phase in phases] == pytest.approx(traced_peaks, rel=0.005)
