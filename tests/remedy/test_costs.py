"""Step times by hand: FLOPs and bytes over the vendor's numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.job.model import (
    Batch,
    Checkpointing,
    Hardware,
    Lora,
    Method,
    Optimizer,
    Parallel,
    Precision,
)
from oomph.job.names import model
from oomph.remedy.costs import FORMULAS, HOST_BYTES, USE, cost
from oomph.remedy.work import shape_of, trainable, work_of
from tests.remedy.jobs import EIGHT, LAYER, ONE, PRODUCTS, WEIGHTS

#: Bytes a second of its memory and of NVLink in one direction, as NVIDIA publishes them.
MEMORY, NVLINK = 2039e9, 300e9
LARGE = replace(
    ONE,
    model=model("meta-llama/Llama-3.1-8B"),
    precision=Precision(weights="bf16", compute="bf16"),
    batch=Batch(micro=1, sequence=8192),
)
#: Llama 3.1 8B: 8,030,261,248 weights, of which the embedding's 128,256 x 4,096 are looked up and not multiplied.
ALL_8B = 8_030_261_248
PRODUCTS_8B = ALL_8B - 128_256 * 4_096


def seconds(job, part: str) -> float:
    return dict(cost(job).parts).get(part, 0.0)


def test_weights_are_counted():
    shape = shape_of(ONE.model)
    assert shape.total == WEIGHTS
    assert shape.products == PRODUCTS + 4 * 128 + 64 - 4 * 128 - 64  # norms are not products
    assert (shape.layers, shape.hidden, shape.attention) == (4, 64, 64)


def test_flops_of_a_full_fine_tuning():
    """Forward 2 P N, and per layer half of 4 s^2 d as causal attention skips the future; backward twice the products
    and 2.5 times the attention."""
    tokens = 8192
    shape = shape_of(LARGE.model)
    attention = 32 * 4 * tokens * tokens * 4096 / 2
    work = work_of(LARGE)
    assert shape.products == pytest.approx(PRODUCTS_8B, rel=1e-4)
    assert work.forward == 2 * shape.products * tokens + attention
    assert work.backward == 4 * shape.products * tokens + 2.5 * attention
    expected = (work.forward + work.backward) / (312e12 * USE)
    assert seconds(LARGE, "products and attention") == pytest.approx(expected)


def test_checkpointing_runs_the_forward_again():
    work = work_of(replace(LARGE, checkpointing=Checkpointing(mode="full")))
    assert work.recompute == work.forward
    half = work_of(replace(LARGE, checkpointing=Checkpointing(mode="every_n", every=2)))
    assert half.recompute == half.forward / 2


def test_adapters_train_less():
    """q 64 x 64 and v 64 x 32 in 4 layers, rank 4: 4 x 4 x (128 + 96)."""
    method = Method(name="lora", lora=Lora(rank=4, targets=("q_proj", "v_proj")))
    assert trainable(replace(ONE, method=method)) == 4 * 4 * (128 + 96)
    everywhere = Method(name="lora", lora=Lora(rank=4, targets=("all-linear",)))
    sides = 2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128)
    assert trainable(replace(ONE, method=everywhere)) == 4 * 4 * sides
    assert LAYER == 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128


def test_micro_batches_add_up():
    """Two micro-batches of one are the products of one of two; the step is taken once."""
    two = replace(LARGE, batch=Batch(micro=2, sequence=8192))
    split = replace(LARGE, batch=Batch(micro=1, sequence=8192, accumulation=2))
    assert cost(split).tokens == cost(two).tokens
    assert cost(split).seconds == pytest.approx(cost(two).seconds, rel=0.01)


def test_small_micro_batches_wait_for_launches():
    """4 layers x 120 kernels x 5 us: a tiny model takes as long for one sample as for two."""
    one = replace(ONE, batch=Batch(micro=1, sequence=128))
    assert seconds(one, "products and attention") == pytest.approx(4 * 120 * 5e-6)
    assert seconds(replace(one, compile=True), "products and attention") < 4 * 120 * 5e-6


def test_a_fused_step_passes_once():
    """Read and write 2 + 2 bytes of weights, 2 of gradients, twice two states of 2: 14 bytes per weight."""
    fused = replace(LARGE, optimizer=Optimizer(impl="fused"))
    assert seconds(fused, "optimizer") == pytest.approx(14 * ALL_8B / MEMORY)
    assert seconds(LARGE, "optimizer") == pytest.approx(3 * 14 * ALL_8B / MEMORY)


def test_what_compute_hides_is_not_counted():
    """8 A100 over NVLink: gathers of 16 GB twice and a reduction take 0.14 s of some 2.9 s of compute; for short
    sequences they do not hide."""
    job = replace(
        LARGE,
        parallel=Parallel(strategy="fsdp2_full", data=8),
        hardware=Hardware(gpu="a100-80gb", gpus=8),
    )
    assert seconds(job, "communication") == 0
    short = replace(job, batch=Batch(micro=1, sequence=128))
    moved = 3 * 2 * ALL_8B * 7 / 8 / NVLINK
    compute = seconds(short, "products and attention")
    assert seconds(short, "communication") == pytest.approx(moved - compute)


def test_a_step_on_the_host():
    """28 bytes per weight of fp32 state, gradients and weights, read and written; one rank."""
    job = replace(LARGE, optimizer=Optimizer(offload="cpu"))
    assert seconds(job, "step on the host") == pytest.approx(28 * ALL_8B / HOST_BYTES)
    assert seconds(job, "optimizer") == 0


def test_paged_states_move_in_and_out_in_every_step():
    """Two fp32 states of 8,030,261,248 weights, there and back over a link of 32 GB/s (PCIe 4.0 x16): 4 s."""
    job = replace(LARGE, optimizer=Optimizer(name="adamw", impl="bnb_paged", state="fp32", offload="paged"))
    assert seconds(job, "paged states") == pytest.approx(2 * 2 * 4 * ALL_8B / 32e9, rel=0.02)


def test_tensor_parallel_is_not_hidden():
    job = replace(LARGE, parallel=Parallel(tensor=2), hardware=Hardware(gpu="a100-80gb", gpus=2))
    size = 8192 * 4096 * 2
    assert seconds(job, "tensor parallel") == pytest.approx(4 * 32 * size * 1.0 / NVLINK)


def test_parts_add_up_and_have_formulas():
    for job in (ONE, EIGHT, LARGE):
        its = cost(job)
        assert sum(value for _, value in its.parts) == pytest.approx(its.seconds)
        assert all(name in FORMULAS for name, _ in its.parts)


def test_unknown_speeds_are_said():
    assert cost(replace(ONE, hardware=Hardware())).assumptions == ("speeds are those of one a100-80gb",)
    assert cost(ONE).assumptions == ()
