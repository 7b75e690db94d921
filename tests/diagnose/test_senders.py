"""SIGKILL: reported as a possible lack of host memory unless the log names who else sent it."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty, Outcome
from tests.diagnose.logs import diagnosed, finding

KILLED = "step 410 loss 1.77\nrun.sh: line 3: 22930 Killed                  python -u pretrain.py\n"


@pytest.mark.parametrize(
    "line",
    [
        "Cluster was preempted or failed; recovering ...",
        "slurmstepd: error: *** STEP 12.0 ON n4 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "Spot instance interruption notice received",
        "reason: Evicted",
    ],
)
def test_another_sender_is_believed(line: str):
    diagnosis = diagnosed(KILLED + line + "\n")
    assert diagnosis.outcome is Outcome.NO_OOM
    assert any("who sent it" in note for note in diagnosis.notes)


def test_without_one_it_is_a_possibility():
    assert finding(diagnosed(KILLED), "host_ram").certainty is Certainty.POSSIBLE


def test_figures_of_a_full_host_outweigh_the_words():
    ray = (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.9) was 61.40GB / 64.00GB (0.959), which exceeds the threshold of 0.95.\n"
    )
    assert diagnosed(ray + KILLED + "Cluster was preempted\n").outcome is Outcome.FAILED
