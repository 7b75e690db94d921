"""DoRA: every phase of a plan against a trace of PEFT's own layers."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.predict.compose import supported
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.engine.dora import DoraAge
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.methods.cases import LLAMA, Case, expected, planned

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
#: Few words, so that the largest peak is a layer's and not the loss's.
FEW = {"vocab_size": 512}
CASES = (
    Case("bf16", dora=True),
    Case("adapters in bf16", dora=True, lora_dtype="bf16", evaluates=False),
    Case("fp32", dora=True, precision="fp32", targets=ALL),
    Case("autocast with dropout", dora=True, precision="bf16-autocast", dropout=0.1),
    Case("recomputed", dora=True, recomputed=True, targets=ALL),
    Case(
        "recomputed, few words", dora=True, recomputed=True, targets=ALL, dropout=0.1, sequence=1024, more=FEW
    ),
    Case("biases", "qwen2", dora=True, evaluates=False),
    Case("Conv1D", "gpt2", dora=True, targets=("c_attn",), evaluates=False),
    Case("nf4", dora=True, quantized="nf4", targets=ALL, batch=1, sequence=64),
)
#: The same trap without a magnitude: adapters on a layer's last product.
LORA = tuple(
    Case(f"LoRA {dropout}", targets=("down_proj",), recomputed=True, dropout=dropout, sequence=1024, more=FEW)
    for dropout in (0.0, 0.1)
)


@pytest.mark.parametrize("case", [*CASES, *LORA], ids=lambda case: case.name)
def test_every_phase_is_within_a_thousandth(case):
    traced, plan = expected(case), planned(case)
    assert traced
    for phase, size in traced.items():
        assert abs(plan[phase] / size - 1) <= 0.001, phase


def test_a_magnitude_is_one_number_for_each_output():
    with_, without = (
        sum(
            each.numel
            for unit in composed(Case("parameters", dora=dora)).units.units
            for each in unit.parameters
            if each.trainable
        )
        for dora in (True, False)
    )
    # q has 8 heads of 64, v has 2, in each layer
    assert with_ - without == LLAMA["num_hidden_layers"] * (8 + 2) * 64


def composed(case):
    job = case.job()
    return compose(setup_of(job, variants(job)[0]), PeakSink())


def forward(case):
    sink = PeakSink()
    job = case.job()
    compose(setup_of(job, variants(job)[0]), sink)
    return {phase.value: peak.bytes for phase, peak in sink.peaks().items()}["forward"]


def test_before_0_14_the_layers_product_is_made_and_kept_again():
    now, old = (
        Case("age", dora=True, precision="fp32", targets=("up_proj",), versions=(("peft", version),))
        for version in ("0.21.0", "0.13.0")
    )
    # Each layer's own result is no longer what the magnitude's node keeps, but a second one is, of 512 tokens x 1408
    # in fp32: no more and no less is kept until backward. While the layer runs there are both.
    assert forward(old) >= forward(now)


@pytest.mark.parametrize(
    ("version", "age"),
    [
        ("0.11.1", DoraAge.PRODUCT),
        ("0.13.2", DoraAge.IDENTITY),
        ("0.14.0", DoraAge.CURRENT),
        ("", DoraAge.CURRENT),
    ],
)
def test_the_code_is_that_of_the_version(version, age):
    from oomph.predict.compose.adapting import adapters_for

    job = Case("age", dora=True, versions=(("peft", version),) if version else ()).job()
    assert adapters_for(setup_of(job, variants(job)[0])).age is age


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("Conv1D", "gpt2", dora=True, dropout=0.1, targets=("c_attn",)), "Conv1D"),
        (Case("GPTQ", dora=True, quantized="gptq4"), "GPTQ"),
    ],
)
def test_what_is_not_modelled_is_named(case, said):
    with pytest.raises(UsageError, match=said):
        supported.check(case.job())


def test_dora_of_another_framework_is_named():
    import msgspec

    job = Case("titan", dora=True).job()
    job = msgspec.structs.replace(job, framework=msgspec.structs.replace(job.framework, name="torchtune"))
    with pytest.raises(UsageError, match="DoRA under torchtune"):
        supported.check(job)
