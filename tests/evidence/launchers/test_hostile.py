# ruff: noqa: E501 (lines as the launchers print them)
"""No text makes a launcher's parser raise, and junk costs linear time."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.launchers import parse
from oomph.evidence.model import Document, Line

_PIECES = st.sampled_from(
    [
        "Failures:", "Root Cause (first observed failure):", "[0]:", "  rank      : ", "3 (local_rank: 3)", "exitcode  : ",
        "-9 (pid: 412)", "(exitcode: -9) local_rank: ", "failed ", "Sending process ", "closing signal ", "SIGTERM", "9" * 30,
        "Killing subprocess ", "exits with return code = ", "returned non-zero exit status ", "died with <Signals.", "srun: error: ",
        "node-0: tasks ", "0-", ": Killed", "slurmstepd: error: ", "*** STEP 1.0 ON a CANCELLED AT ", "2025-99-99T99:99:99",
        "-- Process ", " terminated with the following error:", "process ", "terminated with signal ", "oom-kill:constraint=", ",pid=",
        "Out of memory: Killed process ", "(python)", "A worker died or was killed while executing", "pid=", "Worker PID: ", "Killed",
        "line 3: ", "exit code ", "OOMKilled", "Exit Code: ", "echo $?", "-", "=", "=" * 20, "٣", "İ", "\x00", "\ud800", " ", "4117",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_PIECES, max_size=8).map("".join), max_size=8))
def test_pieces_of_real_lines_in_any_order(lines):
    for end in parse(Document("x", [Line(text, number) for number, text in enumerate(lines, 1)])):
        assert end.code is None or -(2**33) < end.code < 2**34
        assert 0 <= end.position.line < len(lines)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text(lines):
    parse(Document("x", [Line(text, number) for number, text in enumerate(lines, 1)]))


def test_a_long_line_of_one_word():
    words = (
        "srun: error: ",
        "killed ",
        "Killing subprocess ",
        "(exitcode: ",
        "oom-kill:constraint=",
        "worker died ",
        "exit code ",
    )
    lines = [Line(word * (200_000 // len(word)), 1) for word in words]
    start = time.perf_counter()
    parse(Document("x", lines))
    assert time.perf_counter() - start < 10


def test_ordinary_lines_are_cheap():
    text = "[2025-03-04 09:14:40] epoch 3 iter  2200/5000  loss 0.5328  lr 1.0e-04  data 0.036s  step 0.321s"
    document = Document("x", [Line(text, number) for number in range(100_000)])
    start = time.perf_counter()
    assert parse(document) == []
    assert time.perf_counter() - start < 2
