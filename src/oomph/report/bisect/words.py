"""Sentences about a search that text and progress share."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.trial.lines import Line
from oomph.trial.model import TrialOutcome, TrialResult, Value, shown
from oomph.trial.protocol import Verdict
from oomph.units import format_bytes

HEADLINES = {
    Verdict.CAUSE: "The cause is alone",
    Verdict.TOGETHER: "The cause is several variables together",
    Verdict.LEAK: "The cause is a leak",
    Verdict.PASSES: "It does not fail",
    Verdict.NOTHING_FITS: "No variable is enough",
    Verdict.UNKNOWN: "Could not tell",
}
_OUTCOMES = {
    TrialOutcome.FITS: "fits",
    TrialOutcome.OOM: "out of memory",
    TrialOutcome.HOST_OOM: "out of main memory",
    TrialOutcome.CRASHED: "crashed",
    TrialOutcome.COMMUNICATION: "communication failed",
    TrialOutcome.HUNG: "hung",
    TrialOutcome.DISK: "disk full",
    TrialOutcome.LOST: "lost",
    TrialOutcome.CANCELLED: "stopped",
}


def setting_words(setting: Mapping[str, Value]) -> str:
    """batch=8 seq=512"""
    return " ".join(f"{name}={shown(value)}" for name, value in setting.items())


def outcome_words(result: TrialResult) -> str:
    """How a trial ended, and where."""
    word = _OUTCOMES[result.outcome]
    if result.outcome is TrialOutcome.OOM and result.phase:
        who = f", rank {result.rank}" if (result.world_size or 1) > 1 and result.rank is not None else ""
        return f"{word} in {result.phase}{who}"
    return word


def peak_words(result: TrialResult) -> str:
    """The fullest phase of a trial."""
    if not result.peaks:
        return ""
    most = max(result.peaks, key=lambda one: one.allocated_bytes)
    more = "> " if most.failed else ""
    where = "between phases" if most.phase == "unknown" else most.phase
    return f"{more}{format_bytes(most.allocated_bytes)} {where}"


def line_words(line: Line, unit: str) -> str:
    """What a line says of a phase."""
    sign = "" if line.slope_bytes >= 0 else "-"
    size = round(abs(line.slope_bytes))
    slope = f"{sign}{format_bytes(size)} for each unit of {unit}" if size else f"the same at any {unit}"
    if line.deviation_bytes is None:
        return f"{slope}, by 2 trials: a line through two points, which nothing tests"
    off = f"the largest deviation is {format_bytes(line.deviation_bytes)}"
    return f"{slope}, by {len(line.points)} trials; {off}"
