"""`oomph.trace()` in one process, which is not that of the tests: PyTorch stays as it is here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.errors import UsageError
from oomph.units import MIB

_JOB = """
import torch

def train(size=1024, steps=2):
    model = torch.nn.Linear(size, size, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        model(torch.randn(8, size, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
_PROGRAM = """
import json
import torch
import oomph
from job import train

told = {}

with oomph.trace(gpu="a100-40gb") as t:
    train()
t.save("trace.pickle")
peaks = {str(phase): peak.allocated_bytes for phase, peak in t.prediction.phases.items()}
told["block"] = [t.prediction.fits, peaks, t.trace.steps_done, torch.ones(2).tolist()]

t = oomph.trace("job:train", capacity="1GiB", steps=1, keywords={"size": 512, "steps": 9})
told["function"] = [t.trace.steps_done, t.report.command, t.prediction.fits]

reached = False
with oomph.trace(capacity=10 * 2**20) as t:
    train()
    reached = True
told["full"] = [reached, t.prediction.fits, str(t.prediction.fails_in), t.report.failed.kind]

try:
    with oomph.trace() as t:
        raise KeyError("mine")
except KeyError as error:
    failed = t.report.failed
    told["own"] = [str(error), failed.kind, t.report.exit_code, "oomph" in failed.traceback]

with oomph.trace() as t:
    pass
told["nothing"] = [t.prediction.peak.reserved_bytes, t.prediction.fits]

sentences = told["sentences"] = []
t = oomph.trace()
try:
    t.report
except oomph.OomphError as error:
    sentences.append(str(error))
with t:
    try:
        with oomph.trace():
            pass
    except oomph.OomphError as error:
        sentences.append(str(error))
for again in (lambda: t.__enter__(), lambda: oomph.trace("job:nothing"), lambda: oomph.trace("job")):
    try:
        again()
    except oomph.OomphError as error:
        sentences.append(str(error))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """What the program found."""
    (folder / "job.py").write_text(_JOB, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_a_block(told: dict[str, Any]) -> None:
    fits, peaks, steps, after = told["block"]
    assert fits is True
    # A weight of 1024 * 1024 floats, and a batch of 8 * 1024.
    assert peaks["load"] == 4 * MIB + 8 * 1024 * 4
    # Weight, gradient and momentum, and workspaces of cuBLAS for two threads.
    assert peaks["optimizer"] >= 12 * MIB
    assert steps == 2
    assert after == [1.0, 1.0]


@pytest.mark.usefixtures("told")
def test_what_was_saved_is_a_snapshot(folder: Path) -> None:
    report = oomph.snapshot(folder / "trace.pickle")
    assert report.devices[0].steps is not None
    assert report.devices[0].steps.count == 2
    assert "without a GPU" in report.notes[0]


def test_a_function_by_its_name(told: dict[str, Any]) -> None:
    assert told["function"] == [1, "job:train", True]


def test_a_full_gpu_ends_the_block(told: dict[str, Any]) -> None:
    reached, fits, _, kind = told["full"]
    assert (reached, fits) == (False, False)
    assert kind.endswith("OutOfMemoryError")


def test_an_exception_of_the_blocks_own_goes_on(told: dict[str, Any]) -> None:
    assert told["own"] == ["'mine'", "KeyError", 2, False]


def test_a_block_that_allocates_nothing_needs_nothing(told: dict[str, Any]) -> None:
    assert told["nothing"] == [0, None]


def test_what_cannot_be_is_a_sentence(told: dict[str, Any]) -> None:
    assert [text.partition(":")[0] for text in told["sentences"]] == [
        "The traced block has not ended yet",
        "A trace is running already",
        "This trace is over",
        "job has no function nothing.",
        "'job' is no function",
    ]


@pytest.mark.parametrize(
    "asked", [{"gpu": "no such gpu"}, {"capacity": "much"}, {"capacity": 0}, {"torch": "1.13"}]
)
def test_what_is_not_known_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        oomph.trace(**asked)
