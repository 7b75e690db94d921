"""A finding is no surer than what it rests on."""

from __future__ import annotations

import pickle
from pathlib import Path

import oomph
from oomph.diagnose.model import Certainty, Finding
from oomph.diagnose.snapshot.model import SnapshotReport
from oomph.units import MIB
from tests.diagnose.snapshot.recorded import FORWARD, LOAD, Recorder, Stack, cpp

#: Code that calls functions, recorded with C++ frames alone: a hint of a forward, and no more.
HINT = (
    cpp("at::native::relu(at::Tensor const&)"),
    cpp("at::_ops::relu::call(at::Tensor const&)"),
    cpp("_PyEval_EvalFrameDefault"),
)


def failed_in(stack: Stack, path: Path) -> SnapshotReport:
    recorder = Recorder()
    recorder.alloc(MIB, LOAD)
    for _ in range(100):
        recorder.alloc(4 * MIB, stack)
        recorder.temporary(MIB, stack)
    recorder.oom(64 * MIB, stack)
    path.write_bytes(pickle.dumps(recorder.content()))
    return oomph.snapshot(path)


def finding(report: SnapshotReport, code: str) -> Finding:
    [found] = [one for one in report.findings if one.code == code]
    return found


def test_activations_that_frames_of_modules_show(tmp_path: Path):
    report = failed_in(FORWARD, tmp_path / "modules.pickle")
    assert finding(report, "OOM201").certainty is Certainty.LIKELY
    assert "static_state_too_big" in {one.cause for one in report.ruled_out}


def test_activations_that_a_hint_shows_are_possible_and_rule_nothing_out(tmp_path: Path):
    report = failed_in(HINT, tmp_path / "hints.pickle")
    found = finding(report, "OOM201")
    assert found.certainty is Certainty.POSSIBLE
    assert "may have been activations" in found.says
    assert "static_state_too_big" not in {one.cause for one in report.ruled_out}
