"""What every change keeps, on every kind of job; and what each makes of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oomph.job.model import (
    Batch,
    Checkpointing,
    Framework,
    Hardware,
    Job,
    Optimizer,
    Parallel,
    Precision,
)
from oomph.job.toml import from_toml, to_toml
from oomph.phases import Phase
from oomph.remedy.changes import ALLOWANCES, all_changes, axes, by_code
from oomph.remedy.changes.base import Change
from tests.remedy.jobs import EIGHT, ONE, WITH_EVALUATION

TITAN = replace(EIGHT, framework=Framework(name="torchtitan"))
NODES = replace(
    EIGHT,
    parallel=Parallel(strategy="ddp", data=32),
    hardware=Hardware(gpu="h100", gpus=32, per_node=8),
)
FRAMEWORKS = (
    "",
    "pytorch",
    "transformers",
    "trl",
    "axolotl",
    "llama-factory",
    "torchtune",
    "torchtitan",
    "litgpt",
    "lightning",
    "megatron",
    "deepspeed",
    "accelerate",
)
STRATEGIES = ("none", "ddp", "fsdp1_full_shard", "fsdp2_full", "zero1", "zero2", "zero3")

JOBS = st.builds(
    lambda base, name, strategy, micro, steps, mode, impl, weights: replace(
        base,
        framework=Framework(name=name),
        parallel=Parallel(strategy=strategy, data=1 if strategy == "none" else 8),
        hardware=Hardware(gpu="a100-80gb", gpus=1 if strategy == "none" else 8),
        batch=Batch(micro=micro, sequence=2048, accumulation=steps),
        checkpointing=Checkpointing(mode=mode),
        optimizer=Optimizer(impl=impl),
        precision=Precision(weights=weights, compute="bf16", autocast=weights == "fp32"),
    ),
    st.sampled_from((ONE, EIGHT, WITH_EVALUATION)),
    st.sampled_from(FRAMEWORKS),
    st.sampled_from(STRATEGIES),
    st.integers(1, 24),
    st.integers(1, 4),
    st.sampled_from(("none", "full", "selective_op")),
    st.sampled_from(("foreach", "fused", "for_loop", "bnb", "in_backward")),
    st.sampled_from(("fp32", "bf16")),
)


def applying(job: Job) -> list[Change]:
    return [change for change in all_changes(job) if change.applies(job) is None]


@given(JOBS)
def test_a_change_is_done_once(job):
    """After it, it does not apply again; and the job is another one (loading on the meta device, which the plan takes
    for granted, apart)."""
    for change in applying(job):
        changed = change.apply(job)
        if change.code == "meta-load":
            assert changed == job
            continue
        assert changed != job
        assert change.applies(changed) is not None, change


@given(JOBS)
def test_what_is_not_allowed_stays(job):
    """Without allowance: the samples of a step, the context, the precision, the method and the machine."""
    for change in applying(job):
        changed = change.apply(job)
        if change.needs:
            assert change.needs in ALLOWANCES
            continue
        assert samples(changed) == samples(job), change
        assert changed.batch.sequence == job.batch.sequence
        assert changed.method == job.method
        assert changed.hardware == job.hardware
        assert changed.parallel.ranks == job.parallel.ranks
        assert bits(changed) >= bits(job) or changed.parallel.strategy.startswith("zero"), change


def samples(job: Job) -> int:
    return job.batch.micro * job.batch.accumulation * job.parallel.data


def bits(job: Job) -> tuple[int, int]:
    """Of the weights that are trained (masters count), and of the products."""
    size = {"fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16}
    return size["fp32" if job.precision.master else job.precision.weights], size[job.precision.compute]


@given(JOBS)
def test_every_change_says_what_to_write_and_how_to_check(job):
    for change in applying(job):
        text = "\n".join(change.lines(job))
        assert text.strip()
        assert not re.search(
            r"\{(micro|steps|all|length|every|name|flag|short|rank|alpha|dtype|torch|bits|class|stage"
            r"|reshard|yaml|titan|ranks|copies|size|batch|tokens)\}",
            text,
        ), (change, text)
        assert change.verify(job).endswith(".")
        assert change.title
        assert change.phases
        assert change.numerics in ("unchanged", "close", "changed")
        assert change.effort in ("flag", "code")


@given(JOBS)
def test_a_changed_job_can_be_saved(job):
    for change in applying(job):
        changed = change.apply(job)
        assert from_toml(to_toml(changed)) == changed


@given(JOBS)
def test_why_not_is_a_sentence(job):
    for change in all_changes(job):
        why = change.applies(job)
        assert why is None or why.endswith(".")


def test_axes_hold_what_is_allowed():
    without = {change.code for changes in axes(ONE).values() for change in changes}
    assert not without & {
        "lora",
        "qlora",
        "shorter-sequence",
        "lower-dtype",
        "eight-bit-optimizer",
        "other-gpu",
    }
    with_method = {change.code for changes in axes(ONE, {"method"}).values() for change in changes}
    assert with_method - without == {"lora", "qlora"}


@dataclass(frozen=True)
class Case:
    """A job, the code of a change, and the paths that it sets."""

    job: Job
    code: str
    expected: dict[str, object]


CASES = [
    Case(ONE, "micro-batch", {"batch.micro": 4, "batch.accumulation": 2}),
    Case(ONE, "checkpointing", {"checkpointing.mode": "full"}),
    Case(
        replace(
            EIGHT, parallel=Parallel(strategy="fsdp2_full", data=8), batch=Batch(micro=2, accumulation=2)
        ),
        "sync-each-batch",
        {"parallel.sync_each_batch": True},
    ),
    Case(ONE, "chunked-loss", {"loss": "fused_linear_ce"}),
    Case(ONE, "foreach-off", {"optimizer.impl": "fused"}),
    Case(ONE, "optimizer-in-backward", {"optimizer.impl": "in_backward"}),
    Case(ONE, "paged-optimizer", {"optimizer.offload": "paged", "optimizer.state": "fp32"}),
    Case(ONE, "eight-bit-optimizer", {"optimizer.impl": "bnb", "optimizer.state": "int8"}),
    Case(ONE, "lora", {"method.name": "lora", "precision.weights": "bf16"}),
    Case(ONE, "qlora", {"method.name": "qlora", "method.quantization.kind": "nf4"}),
    Case(ONE, "lower-dtype", {"precision.weights": "bf16", "precision.autocast": False}),
    Case(ONE, "shorter-sequence", {"batch.sequence": 1024}),
    Case(ONE, "offload-optimizer", {"optimizer.offload": "cpu"}),
    Case(ONE, "offload-activations", {"activation_offload": True}),
    Case(ONE, "expandable-segments", {"allocator": "expandable_segments:True"}),
    Case(EIGHT, "shard-optimizer", {"parallel.strategy": "zero1", "precision.master": True}),
    Case(EIGHT, "shard-more", {"parallel.strategy": "fsdp2_full"}),
    Case(WITH_EVALUATION, "eval-batch", {"evaluation.batch": 4}),
    Case(WITH_EVALUATION, "eval-accumulation", {"evaluation.accumulation_steps": 1}),
    Case(WITH_EVALUATION, "generate-shorter", {"evaluation.generate": 128}),
    Case(replace(ONE, attention="eager"), "attention", {"attention": "sdpa"}),
    Case(replace(ONE, batch=Batch(micro=2, accumulation=4)), "effective-batch", {"batch.accumulation": 1}),
    Case(
        TITAN,
        "tensor-parallel",
        {"parallel.tensor": 2, "parallel.data": 4, "batch.accumulation": 2},
    ),
    Case(
        replace(EIGHT, parallel=Parallel(strategy="fsdp2_full", data=8)),
        "offload-parameters",
        {"parallel.offload_parameters": True, "optimizer.offload": "cpu"},
    ),
    Case(
        NODES,
        "hybrid-shard",
        {"parallel.strategy": "fsdp2_hybrid_shard", "parallel.shard_size": 8},
    ),
    Case(replace(ONE, hardware=Hardware(gpu="a100-40gb")), "other-gpu", {"batch.micro": 8}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_what_each_sets(case):
    change = by_code(case.job, case.code)
    assert change is not None
    changed = change.apply(case.job)
    for path, value in case.expected.items():
        found: object = changed
        for name in path.split("."):
            found = getattr(found, name)
        assert found == value, path


def test_a_load_is_not_helped_by_less_work():
    """What shrinks with the batch, the sequence, the loss or the optimizer is not there when a model loads."""
    help_loading = {change.code for change in all_changes(EIGHT) if Phase.LOAD in change.phases}
    assert not help_loading & {
        "micro-batch",
        "shorter-sequence",
        "effective-batch",
        "checkpointing",
        "chunked-loss",
        "attention",
        "foreach-off",
        "eight-bit-optimizer",
        "paged-optimizer",
        "optimizer-in-backward",
        "offload-optimizer",
        "offload-activations",
        "shard-optimizer",
        "eval-batch",
    }
    assert {"shard-more", "qlora", "lower-dtype", "meta-load"} <= help_loading


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("transformers", "micro-batch", "per_device_train_batch_size=4,"),
        ("axolotl", "micro-batch", "micro_batch_size: 4"),
        ("torchtitan", "micro-batch", "local_batch_size = 4"),
        ("torchtune", "checkpointing", "enable_activation_checkpointing: True"),
        ("litgpt", "shorter-sequence", "--train.max_seq_length 1024"),
        ("trl", "shorter-sequence", "max_length=1024"),
        ("pytorch", "checkpointing", "torch.utils.checkpoint"),
        ("", "checkpointing", "gradient_checkpointing=True,"),
        ("llama-factory", "qlora", "quantization_bit: 4"),
        ("transformers", "paged-optimizer", 'optim="paged_adamw_32bit"'),
        ("torchtune", "paged-optimizer", "bitsandbytes.optim.PagedAdamW"),
    ],
)
def test_lines_are_the_framework_s_own(name, code, words):
    job = replace(ONE, framework=Framework(name=name))
    change = by_code(job, code)
    assert change is not None
    assert words in "\n".join(change.lines(job))


def test_old_transformers_writes_fsdp_as_a_string():
    """Since 5 `fsdp` is a switch and everything else stands in fsdp_config."""
    for version, words in (("4.57.1", 'fsdp="full_shard auto_wrap",'), ("5.24.0", "fsdp=True,")):
        job = replace(EIGHT, framework=Framework(name="transformers", versions=(("transformers", version),)))
        change = by_code(job, "shard-more")
        assert change is not None
        assert change.lines(job)[0] == words


def test_every_change_is_on_the_page():
    page = (Path(__file__).parents[3] / "docs" / "remedies.md").read_text(encoding="utf-8")
    codes = {
        change.code for job in (ONE, EIGHT, WITH_EVALUATION, TITAN, NODES) for change in all_changes(job)
    }
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []
