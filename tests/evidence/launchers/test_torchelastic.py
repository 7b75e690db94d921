# ruff: noqa: E501 (lines as the launchers print them)
"""The agent's error table in the layouts of torch 1.9, 1.10-2.2 and 2.3+, and the lines around it."""

from calendar import timegm

import pytest

from oomph.evidence.launchers import torchelastic
from oomph.evidence.model import Document, Line, Position
from tests.evidence.launchers.text import codes, document, exits

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-03-04_09:41:18
  host      : node-1
  rank      : 7 (local_rank: 3)
  exitcode  : -15 (pid: 5103)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 5103
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-03-04_09:41:17
  host      : node-1
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 5101)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 5101
============================================================
"""

OLD_TABLE = """\
***************************************
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-06-17_06:17:14
  rank: 1 (local_rank: 1)
  exitcode: 1 (pid: 2201)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
Other Failures:
[1]:
  time: 2021-06-17_06:17:14
  rank: 0 (local_rank: 0)
  exitcode: -6 (pid: 2200)
  error_file: <N/A>
  msg: "Signal 6 (SIGABRT) received by PID 2200"
***************************************
"""


def test_table_with_a_root_cause():
    other, root = exits(TABLE)
    assert (root.code, root.rank, root.local_rank, root.pid, root.host) == (-9, 5, 1, 5101, "node-1")
    assert root.root
    assert root.launcher == "torchrun"
    assert root.time == timegm((2025, 3, 4, 9, 41, 17))
    assert root.position == Position(2, 18)
    assert root.quote.line == 19
    assert root.quote.text == "exitcode  : -9 (pid: 5101)  (SIGKILL)"
    assert (other.code, other.rank, other.pid, other.root, other.killer) == (-15, 7, 5103, False, "")


def test_table_without_other_failures():
    text = (
        TABLE[: TABLE.index("[1]:")] + "  <NO_OTHER_FAILURES>\n" + TABLE[TABLE.index("-" * 60 + "\nRoot") :]
    )
    assert codes(text) == [(-9, 5, 5101)]


def test_table_of_torch_1_9():
    root, other = exits(OLD_TABLE)
    assert (root.code, root.rank, root.pid, root.root) == (1, 1, 2201, True)
    assert (other.code, other.rank, other.pid, other.root) == (-6, 0, 2200, False)


@pytest.mark.parametrize(("left", "right"), [("│ ", " │"), ("| ", "   |"), ("* ", " *"), ("    ", "")])
def test_table_in_a_box(left, right):
    boxed = "\n".join(f"{left}{line}{right}" for line in TABLE.split("\n"))
    assert codes(boxed) == [(-15, 7, 5103), (-9, 5, 5101)]


def test_entry_with_the_childs_traceback():
    traceback = "\n".join(
        [
            "  traceback : Traceback (most recent call last):",
            *['    File "/workspace/train.py", line 5, in main', "      run(args)"] * 40,
            "  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "  ",
        ]
    )
    text = TABLE.replace("  traceback : Signal 15 (SIGTERM) received by PID 5103", traceback)
    assert codes(text) == [(-15, 7, 5103), (-9, 5, 5101)]


def test_table_whose_entry_numbers_were_lost():
    text = TABLE.replace("[0]:\n", "").replace("[1]:\n", "")
    assert codes(text) == [(-15, 7, 5103), (-9, 5, 5101)]


def test_table_between_the_lines_of_another_writer():
    lines = []
    for number, text in enumerate(TABLE.split("\n"), 1):
        lines.append(Line(text, number, stream="node0"))
        lines.append(Line("  rank      : 99 (local_rank: 0)", number, stream="node1"))
    assert [(end.code, end.rank) for end in torchelastic.parse(Document("x", lines))] == [(-15, 7), (-9, 5)]


def test_two_tables_of_two_nodes():
    assert [end.root for end in exits(TABLE + "Traceback\n" + TABLE)] == [False, True, False, True]


@pytest.mark.parametrize("cut", range(0, len(TABLE), 7))
def test_a_table_cut_anywhere_gives_what_is_whole(cut):
    found = [(end.code, end.rank, end.pid) for end in torchelastic.parse(document(TABLE[:cut]))]
    assert found == [(-15, 7, 5103), (-9, 5, 5101)][: len(found)]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 2 (pid: 412) of binary: /opt/conda/bin/python",
        "E0304 09:41:17.804000 4001 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 412) of binary: /usr/bin/python3",
    ],
)
def test_failed_line(line):
    (end,) = exits(line)
    assert (end.code, end.rank, end.local_rank, end.pid, end.launcher) == (-9, None, 2, 412, "torchrun")


def test_glog_stamps_have_no_year_and_are_not_comparable():
    (end,) = exits(
        "E0304 09:41:17.804000 4001 torch/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 41) of binary: p"
    )
    assert end.time is None


@pytest.mark.parametrize(
    ("line", "code", "pid"),
    [
        ("W0304 09:41:16.712000 4001 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 5101 closing signal SIGTERM", -15, 5101),
        ("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 5102 closing signal SIGINT", -2, 5102),
        ("Unable to shutdown process 5103 via 15, forcefully exiting via 9", -9, 5103),
        ("Unable to shutdown process 5104 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL", -9, 5104),
    ],
)  # fmt: skip
def test_signals_that_the_agent_sends(line, code, pid):
    (end,) = exits(line)
    assert (end.code, end.pid, end.killer) == (code, pid, "launcher")


def test_signal_that_the_agent_got():
    (end,) = exits(
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4001 got signal: 15"
    )
    assert (end.code, end.pid, end.rank, end.killer) == (-15, 4001, None, "")


def test_the_modules_own_parse_reads_the_same():
    assert [end.pid for end in torchelastic.parse(document(TABLE))] == [5103, 5101]
