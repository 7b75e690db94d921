"""From a synthetic snapshot to findings: the class of failure comes first, and its opposite not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.api import snapshot
from oomph.diagnose.snapshot.model import SnapshotReport
from tests.snapshots.every import FRAGMENTED, FULL
from tests.snapshots.scenarios import elsewhere, growth, training
from tests.snapshots.written import Made

FRAGMENTATION = "OOM301"


def report_of_file(made: Made, folder: Path) -> SnapshotReport:
    path = folder / "synthetic.pickle"
    path.write_bytes(made.pickled("2.13"))
    return snapshot(path)


def codes(made: Made, folder: Path) -> list[str]:
    return [finding.code for finding in report_of_file(made, folder).findings]


@pytest.mark.parametrize("name", FULL)
def test_a_full_card_has_no_finding_of_fragmentation(name: str, tmp_path: Path):
    for seed in range(2):
        found = codes(FULL[name](seed, "python"), tmp_path)
        assert found
        assert FRAGMENTATION not in found


@pytest.mark.parametrize("name", FRAGMENTED)
def test_fragmentation_comes_first(name: str, tmp_path: Path):
    assert codes(FRAGMENTED[name](2, "python"), tmp_path)[0] == FRAGMENTATION


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (elsewhere.capped, "OOM104"),
        (elsewhere.side_stream, "OOM302"),
        (elsewhere.graph_pool, "OOM302"),
        (elsewhere.outside_grew, "OOM106"),
        (elsewhere.outside_grew_between_failures, "OOM106"),
        (training.logits, "OOM203"),
        (training.optimizer_scratch, "OOM204"),
        (training.first_step_states, "OOM202"),
        (training.dies_and_unwinds, "OOM201"),
    ],
)
def test_the_cause_comes_first(make, code: str, tmp_path: Path):
    for seed in range(2):
        assert codes(make(seed, "python"), tmp_path)[0] == code


@pytest.mark.parametrize("name", ["keeps_logits", "keeps_two"])
def test_a_leak_comes_first(name: str, tmp_path: Path):
    run = growth.LEAKS[name](1, "python")
    room = run.roomy().device.allocator.peak_allocated_bytes + sum(run.truth.leaks.values()) * 11 // 2
    run.steps = 80
    assert codes(run.tight(room), tmp_path)[0] == "OOM208"


@pytest.mark.parametrize("make", [training.retries, training.empties_its_cache, training.workspaces])
def test_a_job_that_ended_well_did_not_fail(make, tmp_path: Path):
    report = report_of_file(make(1, "all"), tmp_path)
    assert report.exit_code == 0
    assert report.findings == ()
