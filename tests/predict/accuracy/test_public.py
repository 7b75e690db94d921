"""Published measurements beside this repository: each of these is there for a mechanism that a plan once lacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.judge.answers import Answer, answer
from benchmarks.judge.rows import read
from oomph.job.importers.points import from_point
from oomph.predict.plan import plan

POINTS = Path(__file__).parents[3] / "benchmarks" / "points"
ROWS = {row.id: row for row in read(POINTS / "public.jsonl")}

#: Measured by others; within one hundredth.
ALLOCATED = (
    "fms-main-003",  # GPTBigCode returns keys and values although its layers are checkpointed
    "fms-main-040",  # 4-bit layers hand on the fp32 that LayerNorm gives under autocast
    "fms-main-043",  # the same in FSDP, and a fused loss that autocast does not cast for
    "fms-main-031",  # TRL leaves norms in fp32 before it trains a 4-bit model
    "fms-main-082",  # GPTQ without groups
    "hub-gemma-2b-full-4",  # micro-batches that are neither the first nor the last, without reduction
    "hub-phi-2-lora-1",  # LitGPT's phi
    "hub-phi-2-qlora-1",
    "thunder-940-fsdp2-eager",  # LitGPT 0.3.1
    "answer-006",  # FSDP around checkpointed layers
    "minimind-2-2",  # the mean of the logits as the loss
    "litgpt-res-001",  # a length that the pieces of a loss do not divide
)
RESERVED = (
    "ao-f8-h100-1",  # torchtitan of March 2025: the loss is not compiled; expandable segments
    "ao-f8-mi300-1",  # no expandable segments on AMD
    "ao-f8-b200-1",  # attention of cuDNN is recomputed
)


def predicted(name: str, replay: bool = False) -> Answer:
    def planner(job: Any, replay: bool) -> Any:
        return plan(job, replay=replay)

    return answer(ROWS[name], POINTS / "configs", from_point, planner, replay=replay)


@pytest.mark.parametrize("name", ALLOCATED)
def test_allocated_peaks_that_others_measured(name: str) -> None:
    found = predicted(name)
    assert found.unsupported is None
    assert found.error is not None
    assert abs(found.error) < 0.01


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_peaks_that_others_measured(name: str) -> None:
    found = predicted(name, replay=True)
    assert found.error is not None
    assert abs(found.error) < 0.02


def test_rows_can_be_judged_by_anyone() -> None:
    for row in ROWS.values():
        assert row.problem is None
        assert not row.ignored
        assert "https://" in row.source
        assert (POINTS / "configs" / row.raw["model"]["config"]).is_file()


def test_the_files_of_configurations_are_all_used() -> None:
    used = {row.raw["model"]["config"] for row in ROWS.values()}
    assert {path.name for path in (POINTS / "configs").iterdir()} == used


def test_a_card_reserves_no_more_than_it_has() -> None:
    found = predicted("answer-017", replay=True)  # fragments alone would bring it above 25 GiB on 24
    assert found.predicted is not None
    assert found.predicted < 24 * 2**30
    assert found.high == found.predicted
    assert found.covered
