"""Words for parts of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.cli import plan_words as words
from oomph.cli.plan_options import with_values
from oomph.errors import UsageError
from oomph.job.model import Optimizer, Precision


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("fp32", Precision()),
        ("32-true", Precision()),
        ("BF16", Precision(weights="bf16", compute="bf16")),
        ("bf16_autocast", Precision(compute="bf16", autocast=True)),
        ("bf16-mixed", Precision(compute="bf16", autocast=True)),
        ("16-mixed", Precision(compute="fp16", autocast=True)),
        ("fp16-master", Precision(weights="fp16", compute="fp16", master=True)),
        ("tf32", Precision(compute="tf32")),
    ],
)
def test_precisions(word, meant) -> None:
    assert words.precision(word) == meant


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("adamw", Optimizer()),
        ("adamw_torch_fused", Optimizer(impl="fused")),
        ("adamw_bnb_8bit", Optimizer(impl="bnb", state="int8")),
        ("paged_adamw_32bit", Optimizer(impl="bnb_paged", state="fp32", offload="paged")),
        ("adamw_torch_4bit", Optimizer(impl="torchao", state="int4")),
        ("SGD momentum", Optimizer(name="sgd", momentum=0.9)),
        ("lion_8bit", Optimizer(name="lion", impl="bnb", state="int8")),
    ],
)
def test_optimizers(word, meant) -> None:
    assert words.optimizer(word) == meant


def test_aliases_lead_somewhere() -> None:
    for find, aliases in (
        (words.precision, words._PRECISION_ALIASES),
        (words.optimizer, words._OPTIMIZER_ALIASES),
        (words.attention, words._ATTENTION_ALIASES),
        (words.loss, words._LOSS_ALIASES),
    ):
        for alias in aliases:
            assert find(alias) is not None
    for option in ("--fsdp", "--fsdp1"):
        assert words.fsdp(option, "FULL_SHARD").endswith(("full", "full_shard"))
        assert "hybrid" in words.fsdp(option, "hsdp")
    assert words.fsdp("--fsdp1", "SHARD_GRAD_OP") == "fsdp1_shard_grad_op"
    assert words.fsdp("--fsdp", "SHARD_GRAD_OP") == "fsdp2_no_reshard"


def test_offloads() -> None:
    assert words.offloads(["all"]) == {"parameters", "optimizer"}
    assert words.offloads(["params,activations", "nvme"]) == {"parameters", "activations", "nvme"}


@given(st.text(max_size=80))
def test_any_word_is_meant_or_refused_in_a_sentence(word) -> None:
    for find in (words.precision, words.optimizer, words.attention, words.loss, words.checkpointing):
        try:
            find(word)
        except UsageError as error:
            assert str(error).isprintable()  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--fsdp", "m"], ["--fsdp=full", "m"]),
        (["--fsdp", "hybrid", "m"], ["--fsdp=hybrid", "m"]),
        (["--fsdp=hybrid"], ["--fsdp=hybrid"]),
        (["--fsdp1", "GRAD_OP"], ["--fsdp1=grad-op"]),
        (["--checkpointing"], ["--checkpointing=full"]),
        (["--checkpointing", "3"], ["--checkpointing=3"]),
        (["--checkpointing", "--fsdp"], ["--checkpointing=full", "--fsdp=full"]),
        (["--", "--fsdp"], ["--", "--fsdp"]),
    ],
)
def test_values_that_were_left_out(given, meant) -> None:
    assert with_values(given) == meant
