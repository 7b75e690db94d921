"""Context parallelism: a decoder under torch's context_parallel, traced as the last rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.job.model import Parallel
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.engine.context_parallel import Ring
from oomph.predict.engine.heap import Heap
from oomph.predict.plan import plan
from oomph.predict.words import name_of, page_of
from tests.predict.parallel.decoder import Sizes, planned
from tests.tracing.ranks.running import traced

PROGRAM = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel

mesh = init_device_mesh("cuda", ({ranks},))
model = made(LAYERS)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(2):
    tokens = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    labels = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="cuda")
    optimizer.zero_grad()
    peak()
    buffers = dict(buffers=[tokens, labels, model.angles], buffer_seq_dims=[1, 1, 0])
    with context_parallel(mesh, **buffers, no_restore_buffers={{tokens, labels}}):
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            pred = model(tokens)
            loss = functional.cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))
            del pred
            peak()
            loss.backward()
            backward = peak()
    optimizer.step()
print(backward, peak())
"""


@pytest.mark.parametrize(
    ("ranks", "sizes"),
    [
        (2, Sizes(words=256, tokens=4096, batch=1)),
        (4, Sizes(words=256, tokens=8192, batch=1)),
        (2, Sizes(words=256, tokens=4096, kv_heads=4)),
    ],
)
def test_phases_are_those_of_a_trace(ranks, sizes):
    program = sizes.model() + PROGRAM.format(ranks=ranks)
    backward, step = (int(word) for word in traced(program, world=ranks, rank=ranks - 1).printed.split())
    # A trace does not see what DTensor's handler of attention casts with Tensor.to: the merged result, in bf16, which
    # each layer keeps. And these tests' traces leave out kernels' scratch: here the fp32 sums of flash attention.
    queries = sizes.batch * sizes.tokens // ranks * sizes.width
    unseen = sizes.layers * queries * 2 + queries * 4
    peaks = planned(sizes.job(Parallel(context=ranks)))
    assert peaks[Phase.BACKWARD] == pytest.approx(backward + unseen, rel=0.01)
    assert peaks[Phase.OPTIMIZER] == pytest.approx(step, rel=0.01)


def test_bytes_of_a_ring():
    # 1 MiB of bf16 queries, keys and values each, on 4 ranks: 2 Mi / 4 elements
    elements, heap = (1 << 20) // 2, Heap()
    ring = Ring(4, elements, elements, 2)
    ring.before(heap)
    peak = level = 0
    for event in heap.events:
        level += heap.sizes[event] if event >= 0 else -heap.sizes[~event]
        peak = max(peak, level)
    # keys and values of four ranks; merged, a step's in fp32, difference and product 2 MiB each; a step's in bf16
    assert peak == (8 + 4 * 2 + 1) << 20
    # what stays until the result is cast: those of all ranks, merged, a step's
    assert level == (8 + 2 + 1) << 20


def test_the_plan_says_what_it_takes_for_granted():
    found = plan(Sizes().job(Parallel(context=2)), replay=False)
    assert any("ring attention" in each for each in found.assumptions)


def test_terms_lead_to_their_pages():
    for name, page in {
        "keys and values of all ranks": "context-parallel",
        "merged results of the ring": "context-parallel",
        "oomph.all_gather": "tensor-parallel",
        "copy for a collective": "sequence-parallel",
        "receive buffers (gradients)": "pipeline-parallel",
        "input back from the host": "activation-offload",
    }.items():
        assert page_of(Category.COMMUNICATION, name_of(Category.COMMUNICATION, name)) == page
        assert (Path(__file__).parents[3] / "docs" / "terms" / f"{page}.md").exists()
