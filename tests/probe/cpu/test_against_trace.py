"""The same script on the CPU, counted, and traced as on a GPU: the peaks of its phases are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
PHASES = ("load", "forward", "backward", "optimizer")


def test_peaks_of_phases_are_those_of_a_trace(card):
    from tests.probe.cpu import job

    # A workspace of cuBLAS is the one thing that the CPU has no like of; 16 KiB instead of 8 MiB.
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":16:1"}
    traced = subprocess.run(
        [sys.executable, "-m", "oomph", "trace", "--gpu", "a100-40gb", "--format", "json", "--", "job.py"],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (device,) = json.loads(traced.stdout)["traces"][0]["devices"]
    expected = {one["phase"]: one["peak"]["allocated_bytes"] for one in device["phases"]}

    counted = card()
    start = counted.read().allocated_bytes
    peaks = dict.fromkeys(PHASES, 0)

    def end(phase: str) -> None:
        peaks[phase] = max(peaks[phase], counted.read().peak_allocated_bytes - start)

    job.train("cpu", lambda _: counted.begin(), end)
    for phase in PHASES:
        assert peaks[phase] == pytest.approx(expected[phase], rel=0.01), phase
