"""`oomph.trace()` in this process. Each test has a process of its own: PyTorch stays as it is in that of the tests."""

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

_BEGIN = """
import json
import torch
import oomph

def train(size=1024, steps=2):
    model = torch.nn.Linear(size, size, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        model(torch.randn(8, size, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def told(code: str, folder: Path) -> Any:
    """What a program prints as JSON."""
    (folder / "job.py").write_text(_BEGIN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_block(tmp_path: Path) -> None:
    found = told(
        """
with oomph.trace(gpu="a100-40gb") as t:
    train()
t.save("trace.pickle")
peaks = {str(phase): peak.allocated_bytes for phase, peak in t.prediction.phases.items()}
print(json.dumps([t.prediction.fits, peaks, t.trace.steps_done, torch.ones(2).tolist()]))
""",
        tmp_path,
    )
    fits, peaks, steps, after = found
    assert fits is True
    # A weight of 1024 * 1024 floats, and a batch of 8 * 1024.
    assert peaks["load"] == 4 * MIB + 8 * 1024 * 4
    # Weight, gradient and momentum, and workspaces of cuBLAS for two threads.
    assert peaks["optimizer"] >= 12 * MIB
    assert steps == 2
    assert after == [1.0, 1.0]
    report = oomph.snapshot(tmp_path / "trace.pickle")
    assert report.devices[0].steps is not None
    assert report.devices[0].steps.count == 2


def test_a_function_by_its_name(tmp_path: Path) -> None:
    found = told(
        """
t = oomph.trace("job:train", capacity="1GiB", steps=1, keywords={"size": 512, "steps": 9})
print(json.dumps([t.trace.steps_done, t.report.command, t.prediction.fits]))
""",
        tmp_path,
    )
    assert found == [1, "job:train", True]


def test_a_full_gpu_ends_the_block(tmp_path: Path) -> None:
    found = told(
        """
reached = False
with oomph.trace(capacity=10 * 2**20) as t:
    train()
    reached = True
print(json.dumps([reached, t.prediction.fits, str(t.prediction.fails_in), t.report.failed.kind]))
""",
        tmp_path,
    )
    assert found[:2] == [False, False]
    assert found[3].endswith("OutOfMemoryError")


def test_an_exception_of_the_blocks_own_goes_on(tmp_path: Path) -> None:
    found = told(
        """
try:
    with oomph.trace() as t:
        raise KeyError("mine")
except KeyError as error:
    failed = t.report.failed
    print(json.dumps([str(error), failed.kind, t.report.exit_code, "oomph" in failed.traceback]))
""",
        tmp_path,
    )
    assert found == ["'mine'", "KeyError", 2, False]


def test_one_trace_at_a_time_and_each_once(tmp_path: Path) -> None:
    found = told(
        """
told = []
t = oomph.trace()
try:
    t.report
except oomph.OomphError as error:
    told.append(str(error))
with t:
    try:
        with oomph.trace():
            pass
    except oomph.OomphError as error:
        told.append(str(error))
try:
    with t:
        pass
except oomph.OomphError as error:
    told.append(str(error))
print(json.dumps(told))
""",
        tmp_path,
    )
    assert [text.partition(":")[0] for text in found] == [
        "The traced block has not ended yet",
        "A trace is running already",
        "This trace is over",
    ]


@pytest.mark.parametrize(
    "asked", [{"gpu": "no such gpu"}, {"capacity": "much"}, {"capacity": 0}, {"torch": "1.13"}]
)
def test_what_is_not_known_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        oomph.trace(**asked)
