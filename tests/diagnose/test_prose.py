"""Texts of failures that nobody had."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Outcome
from tests.diagnose.logs import FORWARD, diagnosed, oom, steps, traceback

MESSAGE = oom()
GUIDE = f"""\
# Troubleshooting

When the batch is too large, you will see a message like this:

```
{MESSAGE}
```

Lower the batch size.
"""
COMMIT = f"""\
commit 3f9d2c7a1b5e8f60412d9a7c3b6e5f80912d4c6a
Author: Somebody <somebody@example.com>
Date:   Mon Mar 3 10:00:00 2025 +0100

    Fix the evaluation

    It failed with
    {MESSAGE}
"""
TESTS = f"""\
============================= test session starts ==============================
collected 12 items

tests/test_oom.py ............                                           [100%]
WARNING  retry:retry.py:20 {MESSAGE}

============================== 12 passed in 3.41s ==============================
"""
UNITTEST = f"""\
{traceback(FORWARD, MESSAGE)}
----------------------------------------------------------------------
Ran 14 tests in 9.113s

OK
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [(GUIDE, "example"), (COMMIT, "commit"), (TESTS, "passed"), (UNITTEST, "passed")],
    ids=["guide", "commit", "pytest", "unittest"],
)
def test_a_text_about_a_failure_is_no_failure(text: str, reason: str) -> None:
    diagnosis = diagnosed(text)
    assert (diagnosis.outcome, diagnosis.exit_code, diagnosis.findings) == (Outcome.NO_OOM, 0, ())
    assert any(reason in note for note in diagnosis.notes)


def test_a_test_session_that_failed_is_a_failure() -> None:
    text = (
        traceback(FORWARD, MESSAGE) + "=================== 1 failed, 11 passed in 3.41s ===================\n"
    )
    assert diagnosed(text).outcome is Outcome.FAILED


def test_a_unittest_that_failed_is_a_failure() -> None:
    text = traceback(FORWARD, MESSAGE) + "Ran 14 tests in 9.113s\n\nFAILED (errors=1)\n"
    assert diagnosed(text).outcome is Outcome.FAILED


def test_a_traceback_in_a_report_that_quotes_it_is_a_failure() -> None:
    text = f"My job fails, the log looks like this:\n\n{traceback(FORWARD, MESSAGE)}"
    assert diagnosed(text).outcome is Outcome.FAILED


def test_the_words_alone_are_nothing() -> None:
    text = (
        steps(1, 5)
        + "note: lower the batch size if you run out of memory (CUDA out of memory)\n"
        + steps(6, 20)
    )
    assert (diagnosed(text).outcome, diagnosed(text).incidents) == (Outcome.NO_OOM, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        steps(1, 200) + "Training completed.\n",
        traceback(FORWARD, "RuntimeError: CUDA error: an illegal memory access was encountered"),
        traceback(FORWARD, "RuntimeError: CUDA error: device-side assert triggered"),
        traceback(FORWARD, "KeyError: 'labels'"),
        (
            "[rank0]:[E304 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=3)\n"
        ),
    ],
    ids=["empty", "greeting", "clean run", "illegal access", "assert", "other error", "watchdog"],
)
def test_logs_without_a_memory_failure(text: str) -> None:
    diagnosis = diagnosed(text)
    assert (diagnosis.outcome, diagnosis.exit_code, diagnosis.findings) == (Outcome.NO_OOM, 0, ())
    assert diagnosis.summary == "No out-of-memory failure found."
