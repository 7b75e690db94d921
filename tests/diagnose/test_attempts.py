"""A launcher's restarts: what a later attempt did decides about an earlier attempt's failure."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomph
from oomph.diagnose.model import Outcome
from tests.diagnose.logs import FORWARD, oom, traceback

STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(1, 6))


def tree(folder: Path, second: str, second_errors: str = "") -> Path:
    """A torchrun log tree of one rank with two attempts; the first ends with a lack of memory."""
    for attempt, out, err in (
        (0, "step 1 loss 2.0\n", traceback(FORWARD, oom())),
        (1, second, second_errors),
    ):
        place = folder / "run" / f"attempt_{attempt}" / "0"
        place.mkdir(parents=True)
        (place / "stdout.log").write_text(out)
        (place / "stderr.log").write_text(err)
    return folder


@pytest.mark.parametrize("second", [STEPS, "rank 0 micro_batch 4\ntraining complete\n"])
def test_a_later_attempt_that_runs_on_is_a_recovery(tmp_path: Path, second: str):
    diagnosis = oomph.explain([tree(tmp_path, second)])
    assert diagnosis.outcome is Outcome.RECOVERED
    assert diagnosis.exit_code == 0


@pytest.mark.parametrize("second", ["", "rank 0 micro_batch 4\n", "step 1 loss 2.0\n"])
def test_a_later_attempt_that_shows_nothing_is_none(tmp_path: Path, second: str):
    assert oomph.explain([tree(tmp_path, second)]).outcome is Outcome.FAILED


def test_a_later_attempt_that_fails_too_is_none(tmp_path: Path):
    diagnosis = oomph.explain([tree(tmp_path, STEPS, traceback(FORWARD, oom("3.00 GiB")))])
    assert diagnosis.outcome is Outcome.FAILED
