"""Levels and places of findings for machine formats (SARIF, GitHub)."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.model import Certainty, Finding, Outcome
from oomph.evidence.model import Quote
from oomph.report.clean import flat
from oomph.report.view import View
from oomph.report.words import headline


def level(finding: Finding, outcome: Outcome) -> str:
    """Severity: "error" where a failed job's finding is certain or likely, "warning" where possible, else "note"."""
    if outcome is not Outcome.FAILED:
        return "note"
    return "warning" if finding.certainty is Certainty.POSSIBLE else "error"


def quotes_of(finding: Finding, view: View) -> Sequence[Quote]:
    """Where a finding is seen: its own evidence, or the failure itself when it has none."""
    if finding.evidence or view.diagnosis.incident is None:
        return finding.evidence
    return (view.diagnosis.incident.failure.quote,)


def message(finding: Finding, view: View) -> str:
    """The finding in one paragraph: what failed, and why."""
    return f"{headline(view).rstrip('.')}. {finding.certainty.value.capitalize()}: {flat(finding.says)}"


def first_change(view: View) -> str:
    """The first change in one sentence; "" when there is none."""
    advice = view.diagnosis.advice
    return "" if advice is None else f"First change: {flat(advice.first.title)}"


def shown_findings(view: View) -> tuple[Finding, ...]:
    """The findings, unless the view is of a rank that they are not about."""
    return view.diagnosis.findings if view.is_explained else ()
