"""Limits without a GPU: each trial is traced."""

from __future__ import annotations

import sys

import pytest

from oomph.trial.engine import Finished, Task
from oomph.trial.model import TrialOutcome, TrialResult
from oomph.trial.traced import Traced, read_answer
from tests.trial.bisecting import SCRIPTS, bisect, settings

MIB = 1 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="trials need POSIX")
def test_the_batch_of_a_traced_script(tmp_path):
    """As in test_bisect_causes: 20 MiB each, 6 fit in 130; two values keep it short."""
    answer, _ = bisect(
        tmp_path,
        "--engine trace --capacity 130MiB --param batch=7,6 -- --batch {batch} --device cuda",
        script="train.py",
    )
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 6})
    assert settings(answer, "batch") == [(7,), (6,)]
    fits = answer["trials"][1]
    assert fits["known_by"] == "trace"
    peaks = {peak["phase"]: peak["allocated_bytes"] for peak in fits["peaks"]}
    assert 120 * MIB <= peaks["forward"] < 121 * MIB
    assert answer["next_commands"][0].startswith("oomph trace --capacity 130MiB -- ")
    assert str(SCRIPTS) in answer["next_commands"][0]


def trace(**changes):
    peak = {"allocated_bytes": 5, "reserved_bytes": 6, "most_bytes": 7}
    device = {
        "fails_in": None,
        "surely_fails": False,
        "peak": peak,
        "phases": [{"phase": "forward", "peak": peak}],
    }
    base = {
        "rank": 0, "world": 1, "fits": True, "failed": None, "unfinished": "", "steps_done": 3, "capacity_bytes": 10,
        "devices": [device],
    }  # fmt: skip
    return {**base, **changes}


@pytest.mark.parametrize(
    ("traces", "outcome", "says"),
    [
        ([trace()], "fits", "3 steps fit"),
        ([trace(), trace(rank=7, world=8, fits=False)], "oom", "rank 7 memory may run out"),
        ([trace(fits=None)], "crashed", "no capacity"),
        (
            [trace(failed={"kind": "ValueError", "text": "no", "out_of_memory": False})],
            "crashed",
            "ValueError: no",
        ),
        ([trace(failed={"kind": "E", "text": "", "out_of_memory": True})], "oom", "memory runs out"),
        ([trace(unfinished="It was stopped.")], "crashed", "It was stopped."),
    ],
)
def test_answers_of_a_trace(traces, outcome, says):
    base = TrialResult(1, {}, TrialOutcome.CRASHED, "")
    found = read_answer(base, {"traces": traces})
    assert found.outcome.value == outcome
    assert says in found.why
    assert found.peaks[0].allocated_bytes == 5


def test_the_command_of_a_trace(tmp_path):
    from oomph.phases import Phase
    from oomph.trial.goal import END, Goal

    way = Traced(gpu="a100-40gb", world=8)
    words = way.command(("t.py",), tmp_path, END)
    assert words[words.index("--steps") + 1] == "3"
    assert words[words.index("--gpu") + 1] == "a100-40gb"
    assert words[words.index("--rank") + 1] == "distinct"
    assert words[-2:] == ("--", "t.py")
    words = way.command(("t.py",), tmp_path, Goal(2, Phase.EVAL))
    assert words[words.index("--steps") + 1] == "all"


def test_what_trace_refuses_is_said(tmp_path):
    (tmp_path / "err.txt").write_text("a warning\noomph: t.py: no such file. Name a script.\n")
    task = Task("trial-001", ("oomph", "trace"), tmp_path, tmp_path)
    found = Traced(capacity="1GiB").read(Finished(task, 2), 1, {"batch": 8}, None)
    assert (found.outcome, found.why) == (TrialOutcome.CRASHED, "t.py: no such file. Name a script.")


def test_a_script_that_trains_on_the_cpu():
    found = read_answer(
        TrialResult(1, {}, TrialOutcome.CRASHED, ""), {"traces": [trace(fits=None, devices=[])]}
    )
    assert found.outcome is TrialOutcome.CRASHED
    assert "nothing was allocated on any GPU" in found.why
