"""Where a job does not say whether its batches are padded: an interval that covers both, and what is said."""

from __future__ import annotations

import pytest

import oomph
from oomph.job.model import Batch, Framework, Hardware, Job, Precision
from oomph.job.names import model
from oomph.phases import Phase
from oomph.predict.compose import masks
from oomph.predict.plan import plan
from oomph.predict.programs.load import load
from oomph.units import format_bytes

#: b, s and bytes of a mask of b x 1 x s x s in bf16, which each layer of transformers 5 makes of the bool mask.
BATCH, LENGTH = 8, 2048
MASK = 2 * BATCH * LENGTH * LENGTH
#: Of config.json: Qwen2.5-0.5B has 24 layers, 14 heads of 64, 2 of keys and values.
LAYERS, WIDTH, NARROW = 24, 14 * 64, 2 * 64


def planned(padding=None, version="5.24.0", attention="sdpa", **batch):
    job = Job(
        model=model("Qwen2.5-0.5B"),
        precision=Precision(weights="bf16", compute="bf16"),
        batch=Batch(**{"micro": BATCH, "sequence": LENGTH, "padding": padding, **batch}),
        attention=attention,
        framework=Framework(name="trl", versions=(("torch", "2.8.0"), ("transformers", version))),
        hardware=Hardware(gpu="h100"),
    )
    found = plan(job, replay=False)
    assert found.ranks, found.unsupported
    return found


def forward(plan):
    return plan.worst.phases[Phase.FORWARD]


def test_the_interval_holds_both():
    unsaid, off, padded = (planned(word) for word in (None, "off", "longest"))
    assert forward(unsaid).allocated_bytes == forward(off).allocated_bytes
    assert forward(unsaid).high_bytes >= forward(padded).allocated_bytes > forward(off).high_bytes


def test_what_a_mask_adds_is_arithmetic():
    """In each layer the mask in bf16, keys and values for all heads in place of their own, and nothing else: the flash
    kernel too keeps queries, keys, values, output and sums. (The bool mask is gone when the loss is at its peak.)"""
    off, padded = (forward(planned(word)) for word in ("off", "longest"))
    repeated = 2 * 2 * BATCH * LENGTH * (WIDTH - NARROW)
    expected = LAYERS * (MASK + repeated)
    assert padded.allocated_bytes - off.allocated_bytes == pytest.approx(expected, rel=0.01)


def test_the_sentence_names_the_bytes_and_the_key():
    off, padded = (planned(word) for word in ("off", "longest"))
    (told,) = [each for each in planned().assumptions if "batches are padded" in each]
    more = max(each.allocated_bytes for each in padded.worst.phases.values()) - max(
        each.allocated_bytes for each in off.worst.phases.values()
    )
    assert f"up to {format_bytes(more)} more" in told
    assert "--set batch.padding=off, longest or max_length" in told
    assert not [each for each in off.assumptions if "padded" in each]
    (told,) = [each for each in padded.assumptions if "added" in each]
    assert told == "Padded batches are planned at their largest: of full length, one token less."


def test_one_sample_is_padded_only_to_a_length():
    assert not [each for each in planned(micro=1).assumptions if "padded" in each]
    longest, full = (forward(planned(word, micro=1)) for word in ("longest", "max_length"))
    assert longest.allocated_bytes < full.allocated_bytes


def test_packed_samples_may_be_kept_apart():
    (told,) = [each for each in planned(packed=True).assumptions if "Packed" in each]
    assert "position ids begin anew" in told
    flash = planned(packed=True, attention="flash_attention_2")
    older = planned(packed=True, version="4.48.1")
    assert not [each for each in (*flash.assumptions, *older.assumptions) if "Packed" in each]


def test_older_releases_make_one_mask():
    """transformers 4.48: one mask in the model's type for all layers; queries are copied, keys and values repeated
    with a mask or without. The flash kernel's output lies as the copied queries do (empty_like), b x h x s x d, so that
    each layer copies its transpose; the memory-efficient kernel writes b x s x h x d, of which there is no copy."""
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        off, padded = (planned(word, "4.48.1").worst.phases[phase] for word in ("off", "longest"))
        copied = LAYERS * BATCH * LENGTH * WIDTH * 2
        assert padded.allocated_bytes - off.allocated_bytes == pytest.approx(MASK - copied, rel=0.001)


def test_frameworks_without_masks():
    found = oomph.plan(
        "meta-llama/Llama-3.2-1B",
        gpu="h100",
        settings={"framework.name": "torchtune", "batch.micro": 4, "batch.padding": "longest"},
        replay=False,
    )
    assert not [each for each in found.assumptions if "added" in each]


def test_a_kernel_that_takes_no_mask_is_refused():
    found = oomph.plan(
        "gpt2",
        gpu="h100",
        settings={"attention": "sdpa_flash", "batch.micro": 2, "batch.padding": "longest"},
        replay=False,
    )
    assert "takes no mask" in found.unsupported[0]


def test_what_has_not_been_recorded_is_said():
    assert not [each for each in planned(version="4.45.2").assumptions if "has not been recorded" in each]
    found = load("transformers-llama")
    assert found is not None
    told = masks.lacking(Job(batch=Batch(micro=4, sequence=4096)), found, "transformers-4.0-llama", "sdpa")
    assert "has not been recorded" in told
    assert format_bytes(4 * 4096 * 4096 * 4) in told  # a mask in fp32
    assert masks.lacking(Job(), found, "transformers-llama", "sdpa") == ""
