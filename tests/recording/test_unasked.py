"""Phases of scripts that do not ask for it: `oomph record --phases`, on the CPU's simulated card."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oomph.evidence.run.data import Outcome
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from tests.recording.torchrun import environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="oomph record -- CMD needs POSIX")
MIB = 1 << 20

TRAINS = """
import torch
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
    def forward(self, x):
        return x * self.scale
class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
        self.loss = torch.nn.Identity()
    def forward(self, x):
        return self.loss(self.part(x))
first, second = Whole(), Whole()
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()])
for step in range(3):
    x = torch.ones(4 << 18)
    second(first(x)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
first.eval()
with torch.no_grad():
    first(torch.ones(8 << 18))
"""


def record(tmp_path, code, *, exit_code=0, phases=True, **variables):
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [
        sys.executable,
        "-m",
        "oomph",
        "record",
        *(["--phases"] if phases else []),
        "--no-explain",
        "--every",
        "0",
    ]
    done = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run"), "--", sys.executable, str(script)],
        check=False, capture_output=True, text=True, env=environment(**variables), timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stderr
    return read_run(tmp_path / "run"), done.stderr


def test_phases_and_steps_of_a_script_with_two_models(tmp_path):
    """The batch is 4 MiB, kept for backward, and each of the two results as much."""
    run, said = record(tmp_path, TRAINS)
    rank = run.ranks[0]
    assert rank.outcome is Outcome.COMPLETED
    assert rank.steps_completed == 3
    phases = [one.phase for one in rank.phases if one.phase is not Phase.UNKNOWN]
    assert phases == [Phase.LOAD, *(Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER) * 3, Phase.EVAL]
    forward = rank.summaries[Phase.FORWARD]
    assert 12 * MIB <= forward.peak_allocated_bytes < 13 * MIB
    assert "Traceback" not in said


def test_without_the_option_nothing_is_recorded(tmp_path):
    run, _ = record(tmp_path, TRAINS, phases=False)
    assert run.ranks == {}


def test_memory_that_runs_out_before_training(tmp_path):
    run, said = record(
        tmp_path, "import torch\nx = torch.ones(64 << 18)\n", exit_code=1, OOMPH_CPU_CAPACITY="32MiB"
    )
    assert run.ranks[0].outcome is Outcome.OOM
    assert "memory ran out" in said


def test_a_script_that_records_itself_is_left_to_that(tmp_path):
    code = TRAINS.replace(
        "for step in range(3):", "import oomph\nrun = oomph.record(name='mine')\nfor step in range(3):"
    )
    run, _ = record(tmp_path, code)
    assert run.ranks[0].steps_completed == 3
    assert len(run.ranks[0].headers) == 1


def test_a_process_that_only_starts_the_training_is_no_rank(tmp_path):
    """It imports PyTorch, and even counts its tensors; the run is its child's."""
    (tmp_path / "train.py").write_text(TRAINS)
    code = "import subprocess, sys, torch\ntorch.ones(5)\nsubprocess.run([sys.executable, 'train.py'], check=True)\n"
    run, _ = record(tmp_path, code)
    assert run.ranks[0].steps_completed == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("run")] == ["run"]


def test_a_capacity_that_is_none_is_said_and_the_job_runs(tmp_path):
    run, said = record(tmp_path, TRAINS, OOMPH_CPU_CAPACITY="much")
    assert "this process is not recorded" in said
    assert "OOMPH_CPU_CAPACITY=much" in said
    assert run.ranks == {}
