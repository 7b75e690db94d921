"""LLM.int8() under adapters: every phase of a plan against a trace of bitsandbytes' own code, and its outliers."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from oomph.errors import UsageError
from oomph.job.model import Parallel
from oomph.phases import Phase
from oomph.predict.compose import supported
from oomph.predict.compose.quantized_bytes import constant_bytes
from oomph.predict.plan import plan
from tests.predict.methods.cases import Case, expected, planned

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
#: Few words, so that the largest peak is a layer's and not the loss's.
FEW = {"vocab_size": 512}
CASES = (
    Case("bf16", quantized="int8", targets=ALL, sequence=1024, more=FEW),
    Case("prepared", quantized="int8", prepared=True, more=FEW),
    Case(
        "autocast",
        quantized="int8",
        targets=ALL,
        precision="bf16-both",
        dropout=0.1,
        more=FEW,
        evaluates=False,
    ),
    Case("prepared, autocast", quantized="int8", prepared=True, targets=ALL, precision="bf16-both", more=FEW),
    Case(
        "recomputed", quantized="int8", recomputed=True, targets=ALL, sequence=1024, more=FEW, evaluates=False
    ),
    Case(
        "reentrant",
        quantized="int8",
        recomputed=True,
        reentrant=True,
        sequence=1024,
        more=FEW,
        evaluates=False,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_half_a_percent(case):
    traced, found = expected(case), planned(case)
    assert traced
    for phase, size in traced.items():
        assert abs(found[phase] / size - 1) <= 0.005, phase


def test_a_checkpoint_does_not_free_the_inputs_of_its_products():
    """The function has its input as an attribute, which no hook of a checkpoint sees."""
    its = Case("kept", quantized="int8", recomputed=True, sequence=1024, more=FEW, evaluates=False)
    kept, freed = (planned(replace(its, reentrant=reentrant))["forward"] for reentrant in (False, True))
    # In each of 3 layers 2048 tokens of 2 bytes: what q, k and v read, what o reads, what gate and up read (512 wide
    # each) and what down reads (1408 wide). In the last layer they are alive at the peak of either.
    assert kept - freed >= 2 * 2048 * 2 * (3 * 512 + 1408)


def test_scales_are_one_number_for_each_output():
    assert constant_bytes(512 * 1408, "int8", False, 64, 1408) == 4 * 1408


def test_the_interval_reaches_to_outliers():
    job = Case("outliers", quantized="int8", targets=ALL, more=FEW).job()
    found = plan(job, replay=False)
    peak = found.ranks[0].phases[Phase.FORWARD]
    # Beside the margin of every plan: in each of 3 layers 512 tokens of 2 bytes have 1/64 of the inputs of q, k, v, o,
    # gate and up (8 columns of 512 each) and of down (22 of 1408) kept a second time.
    assert peak.high_bytes - peak.allocated_bytes >= 3 * 512 * 2 * (6 * 8 + 22)
    assert any("outliers" in each for each in found.assumptions)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parallel": Parallel(strategy="fsdp2_full", data=2)}, "fsdp2_full"),
        ({"versions": (("bitsandbytes", "0.44.1"),)}, "before 0.45"),
        ({"name": "litgpt"}, "litgpt"),
        ({"dora": True}, "DoRA"),
    ],
)
def test_what_is_not_modelled_is_named(change, said):
    job = Case("refused", quantized="int8", dora=change.get("dora", False)).job()
    framework = msgspec.structs.replace(
        job.framework,
        name=change.get("name", job.framework.name),
        versions=(*change.get("versions", ()), *job.framework.versions),
    )
    job = msgspec.structs.replace(job, parallel=change.get("parallel", job.parallel), framework=framework)
    with pytest.raises(UsageError, match=said):
        supported.check(job)
