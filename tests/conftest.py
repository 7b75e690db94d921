"""What every test shares: a terminal of 80 columns without colour, and hypothesis at a size that CI can bear."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell starts what it puts into the background with SIGINT ignored, and every command of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: The checkout: README.md, examples/, docs/ and tools/ are found from here.
ROOT = Path(__file__).resolve().parent.parent

# The same examples in every run, so that a failure is a change's fault; HYPOTHESIS_PROFILE=explore looks further.
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_report_header() -> str:
    """Says whether the labelled logs that are not part of the repository are judged in this run."""
    from tests.conformance.test_corpus import outside

    folder = outside()
    return f"labelled logs besides tests/data: {folder if folder else 'none here (OOMPH_CONFORMANCE names a folder)'}"


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root() -> Path:
    return ROOT
