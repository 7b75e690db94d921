"""What is said of runs."""

from __future__ import annotations

from oomph.diagnose.runs.model import RunFacts
from oomph.report.runs.words import outcome_of


def test_without_a_last_record_no_kill_is_claimed() -> None:
    """os._exit and a crash in C leave no last record either."""
    said = outcome_of(RunFacts(path="a", id="a", outcome="killed"))
    assert "without a last record" in said
    assert outcome_of(RunFacts(path="a", id="a", outcome="completed")) == "completed"
