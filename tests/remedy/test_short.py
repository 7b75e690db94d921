"""A few layers continued to many, against the whole model."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from oomph.job.model import Batch, Checkpointing, Framework, Hardware, Job, Optimizer, Parallel, Precision
from oomph.job.names import model
from oomph.job.resolve import resolve
from oomph.predict.plan import peak_bytes
from oomph.remedy.floor import floor_bytes
from oomph.remedy.short import short_peak_bytes

BF16 = Precision(weights="bf16", compute="bf16")
AUTOCAST = Precision(weights="fp32", compute="bf16", autocast=True)
CASES = list(
    itertools.product(
        ("none", "ddp", "fsdp2_full", "fsdp1_full_shard", "fsdp2_no_reshard"),
        ("none", "full"),
        ("foreach", "fused", "in_backward", "bnb"),
        (1, 2),
        (BF16, AUTOCAST),
    )
)


def job(strategy: str, mode: str, impl: str, steps: int, precision: Precision) -> Job:
    asked = Job(
        model=model("meta-llama/Llama-3.1-8B"),
        precision=precision,
        batch=Batch(micro=2, sequence=1024, accumulation=steps),
        checkpointing=Checkpointing(mode=mode),  # type: ignore[arg-type]
        optimizer=Optimizer(impl=impl, state="int8" if impl == "bnb" else None),  # type: ignore[arg-type]
        parallel=Parallel(strategy=strategy, data=1 if strategy == "none" else 8),  # type: ignore[arg-type]
        hardware=Hardware(gpu="a100-80gb", gpus=1 if strategy == "none" else 8),
        framework=Framework(name="transformers"),
    )
    return resolve(asked)[0]


@pytest.mark.parametrize("strategy", ["none", "ddp", "fsdp2_full", "fsdp1_full_shard", "fsdp2_no_reshard"])
def test_it_is_that_of_the_whole_model(strategy):
    compared = 0
    for case in CASES:
        if case[0] != strategy or (case[2] == "in_backward" and (case[3] > 1 or strategy != "none")):
            continue
        each = job(*case)
        # A loss, or another scalar, of the step before may be there or not.
        assert short_peak_bytes(each) == pytest.approx(peak_bytes(each), abs=4096), case
        compared += 1
    assert compared == (28 if strategy == "none" else 24)


@pytest.mark.parametrize(
    "strategy", ["none", "ddp", "fsdp2_full", "fsdp1_full_shard", "fsdp2_no_reshard", "fsdp1_shard_grad_op"]
)
def test_it_is_where_activations_are_most(strategy):
    """Long sequences on many ranks: the peak is early in backward, not late."""
    for mode, sync, steps in itertools.product(("none", "full"), (True, False), (1, 2)):
        few = job(strategy, mode, "fused", steps, BF16)
        ranks = 1 if strategy == "none" else 256
        parallel = replace(few.parallel, data=ranks, sync_each_batch=sync)
        each = replace(few, parallel=parallel, batch=Batch(micro=4, sequence=8192, accumulation=steps))
        assert short_peak_bytes(each) == pytest.approx(peak_bytes(each), abs=4096), (mode, sync, steps)


def test_what_is_not_regular_is_left_to_the_whole_model():
    base = job("none", "none", "fused", 1, BF16)

    assert short_peak_bytes(base) is not None
    for other in (
        replace(base, checkpointing=Checkpointing(mode="every_n", every=2)),
        replace(base, parallel=Parallel(strategy="zero2", data=8)),
        replace(base, model=model("google/gemma-2-9b")),
    ):
        assert short_peak_bytes(other) is None


def test_the_floor_is_below_the_prediction():
    """Weights and states are there whatever else is."""
    for case in CASES:
        each = job(*case)
        if case[2] == "in_backward" and case[3] > 1:
            continue
        assert 0 < floor_bytes(each) <= peak_bytes(each), case


def test_the_floor_by_hand():
    """Llama 3.1 8B in bf16 on one GPU: 2 bytes of weights and 4 of moments; over 8 ranks an eighth of them."""
    assert floor_bytes(job("none", "none", "fused", 1, BF16)) == 6 * 8_030_261_248
    assert floor_bytes(job("fsdp2_full", "none", "fused", 1, BF16)) == 6 * 8_030_261_248 // 8
