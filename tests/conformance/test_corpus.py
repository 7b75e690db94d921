"""What must hold on a labelled folder: ../shared/corpus beside the repository, or the one OOMPH_CONFORMANCE names.

Neither is part of the repository. Where none is there, one test says so and the rest of the suite stands alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.run import judge
from tests.conformance.score import Tally

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "corpus"
_NAMED = os.environ.get("OOMPH_CONFORMANCE")


def _folder() -> Path | None:
    """The folder to judge. One that was named must exist; the parent of a folder named corpus will do."""
    if _NAMED:
        named = Path(_NAMED)
        return named / "corpus" if (named / "corpus" / "expect.jsonl").is_file() else named
    return _BESIDE if _BESIDE.is_dir() else None


FOLDER = _folder()
_ABSENT = "no labelled logs here: put a folder at ../shared/corpus, or name one in OOMPH_CONFORMANCE"

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
}
#: what must hold -> (counter of mistakes, how its misses begin)
NONE_WRONG = {
    "no false alarm": ("false_alarms", "false alarm"),
    "no crash": ("crashes", "crash"),
    "exit code 0 for a job that did not die of it": ("exit_wrong", "exit code"),
    "no phase where nothing proves one": ("phase_guessed", "phase guessed"),
}


@pytest.fixture(scope="module")
def tally() -> Tally:
    assert FOLDER is not None
    return judge(FOLDER)


if FOLDER is None:

    @pytest.mark.skip(reason=_ABSENT)
    def test_labelled_logs():
        raise AssertionError(_ABSENT)

else:

    @pytest.mark.parametrize("promise", ALL_RIGHT)
    def test_all_right(tally: Tally, promise: str):
        right, total, begins = ALL_RIGHT[promise]
        assert getattr(tally, right) == getattr(tally, total), _misses(tally, begins)

    @pytest.mark.parametrize("promise", NONE_WRONG)
    def test_none_wrong(tally: Tally, promise: str):
        counter, begins = NONE_WRONG[promise]
        assert getattr(tally, counter) == 0, _misses(tally, begins)


def _misses(tally: Tally, begins: str) -> str:
    """The misses of one kind, a line each."""
    return "\n".join(
        f"{miss.log}: {miss.what}: expected {miss.expected}, got {miss.got}"
        for miss in tally.misses
        if miss.what.startswith(begins)
    )
