"""What stands around a traceback's lines: clocks, line numbers, quotes, markup, wraps. The frames must come through."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import oomph
from oomph.evidence.lines.writers import counts_up, writer_of
from oomph.phases import Phase
from tests.diagnose.logs import BACKWARD, oom, traceback

LINES = ["step 1 loss 2.31", *traceback(BACKWARD, oom()).rstrip("\n").split("\n")]


def clock(index: int) -> str:
    return f"10:08:{index % 60:02d}"


PREFIXES: dict[str, Callable[[int], str]] = {
    "date and time": lambda i: f"2026-03-04 {clock(i)} ",
    "brackets": lambda i: f"[2026-03-04 {clock(i)},{i:03d}] ",
    "a logger": lambda i: f"2026-03-04 {clock(i)},{i:03d} - launcher - ERROR - ",
    "a logger that indents": lambda i: f"03/04/2026 {clock(i)} - ERROR - __main__ -   ",
    "glog": lambda i: f"E0304 {clock(i)}.{i:06d} 1201 launcher.py:88] ",
    "a clock": lambda i: f"{clock(i)} ",
    "syslog": lambda i: f"Mar 04 {clock(i)} gpu01 trainer[1201]: ",
    "tabs": lambda i: f"ERROR\t2026-03-04 {clock(i)} +0000\tworkerpool0-0\t",
    "grep -n": lambda i: f"{i + 7}:",
    "cat -n": lambda i: f"{i + 1:6d}\t",
    "a diff": lambda i: "+",
}


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_on_every_line(tmp_path, name: str):
    log = tmp_path / "train.log"
    log.write_text("".join(f"{PREFIXES[name](i)}{line}\n" for i, line in enumerate(LINES)))
    diagnosis = oomph.explain([log])
    assert diagnosis.phase is not None
    assert diagnosis.phase.phase is Phase.BACKWARD
    assert diagnosis.ranks.first is None


CONTAINERS = {
    "an array of strings": json.dumps({"job": 8, "lines": LINES}, indent=1),
    "a cell of a spreadsheet": 'id,log\n1,"' + "\n".join(LINES).replace('"', '""') + '"\n',
    "a page": "<html><body><p>" + "<br/>".join(LINES).replace("  ", "&nbsp; ") + "</p></body></html>",
    "a word processor": "\n".join(LINES).replace('"', "”"),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_of_text(tmp_path, name: str):
    log = tmp_path / "paste.txt"
    log.write_text(CONTAINERS[name])
    diagnosis = oomph.explain([log])
    assert diagnosis.phase is not None
    assert diagnosis.phase.phase is Phase.BACKWARD
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.numbers["requested_bytes"].bytes == 2 * 2**30


def test_prefixed_lines_that_a_terminal_wrapped(tmp_path):
    """The rest of a wrapped line has no prefix: it belongs to the rank that began it."""
    rows = []
    for rank, lines in ((0, ["step 1 loss 2.31"] * 3), (3, LINES)):
        for line in lines:
            row = f"[default{rank}]:[rank{rank}]: {line}"
            rows += [row[at : at + 80] for at in range(0, len(row), 80)]
    log = tmp_path / "train.log"
    log.write_text("\n".join(rows) + "\n")
    diagnosis = oomph.explain([log])
    assert diagnosis.ranks.first == 3
    assert diagnosis.phase is not None
    assert diagnosis.phase.phase is Phase.BACKWARD
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.numbers["capacity_bytes"].bytes == round(79.15 * 2**30)


@pytest.mark.parametrize(
    ("prefix", "writer"),
    [
        ("2026-03-04 10:08:24 ", ""),
        ("[2026-03-04 10:08:24,123] ", ""),
        ("Mar 04 10:00:00 gpu01 trainer[1201]: ", "gpu01 trainer[1201]:"),
        ("node1-worker-3: ", "node1-worker-3:"),
        ("10:08:24.5 worker 7 | ", "worker 7 |"),
    ],
)
def test_the_writer_is_what_the_clock_leaves(prefix: str, writer: str):
    assert writer_of(prefix) == writer


@pytest.mark.parametrize(
    ("numbers", "expected"), [([7, 8, 9], True), ([0, 0, 0], False), ([3, 1, 2], False), ([7, 8], False)]
)
def test_line_numbers_count_up(numbers: list[int], expected: bool):
    assert counts_up(numbers) is expected
