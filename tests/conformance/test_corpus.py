"""What must hold on labelled folders: those in tests/data, and ../shared/corpus or the one OOMPH_CONFORMANCE names.

The last two are not part of the repository; the header of the test run says whether they were there.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.run import judge
from tests.conformance.score import Tally

_DATA = Path(__file__).resolve().parents[1] / "data"
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "corpus"
_NAMED = os.environ.get("OOMPH_CONFORMANCE")


def outside() -> Path | None:
    """The folder outside the repository. One that was named must exist; the parent of one named corpus will do."""
    if _NAMED:
        named = Path(_NAMED)
        return named / "corpus" if (named / "corpus" / "expect.jsonl").is_file() else named
    return _BESIDE if _BESIDE.is_dir() else None


FOLDERS = [*(_DATA / name for name in ("heldout", "heldout2", "heldout3")), *filter(None, [outside()])]

#: what must hold -> (counter of right answers, counter of all, how its misses begin)
ALL_RIGHT = {
    "every number to the byte": ("numbers_right", "numbers_total", "number "),
    "every phase that a frame or a line proves": ("phase_right", "phase_total", "phase ("),
    "the first cause, where the label is sure": ("cause_right", "cause_total", "cause (high"),
    "the cause among the findings, where it is less sure": (
        "cause_ranked",
        "cause_ranked_total",
        "cause (medium",
    ),
    "a first action of the cause's kind": ("first_action_right", "first_action_total", "first action"),
}
#: what must hold -> (counter of mistakes, how its misses begin)
NONE_WRONG = {
    "no false alarm": ("false_alarms", "false alarm"),
    "no crash": ("crashes", "crash"),
    "exit code 0 for a job that did not die of it": ("exit_wrong", "exit code"),
    "no phase where nothing proves one": ("phase_guessed", "phase guessed"),
    "no failure unreported": ("not_reported", "not reported"),
}


@cache
def tally(folder: Path) -> Tally:
    """The rates on a folder, judged once."""
    return judge(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("promise", ALL_RIGHT)
def test_all_right(folder: Path, promise: str):
    right, total, begins = ALL_RIGHT[promise]
    assert getattr(tally(folder), total) > 0
    assert getattr(tally(folder), right) == getattr(tally(folder), total), _misses(folder, begins)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("promise", NONE_WRONG)
def test_none_wrong(folder: Path, promise: str):
    counter, begins = NONE_WRONG[promise]
    assert getattr(tally(folder), counter) == 0, _misses(folder, begins)


def _misses(folder: Path, begins: str) -> str:
    """The misses of one kind, a line each."""
    return "\n".join(
        f"{miss.log}: {miss.what}: expected {miss.expected}, got {miss.got}"
        for miss in tally(folder).misses
        if miss.what.startswith(begins)
    )
