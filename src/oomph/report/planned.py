"""What a plan of the job adds to a report: how plan and log agree, the job that was planned, and what was assumed."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.planned import JobField, PlannedJob
from oomph.report.citations import Citations
from oomph.report.clean import cut, flat
from oomph.report.layout import wrap
from oomph.report.words import where

#: Characters of a value, and of what says it.
_VALUE = 120
_SAYS = 160
HEADING = "Prediction and log"


def planned_lines(plan: PlannedJob | None, width: int, citations: Citations) -> list[str]:
    """The section of the text report; empty without a plan."""
    if plan is None:
        return []
    lines = wrap(flat(plan.agreement.says), width, "  ")
    for text in field_words(plan.fields, citations):
        lines += wrap(text, width, "  - ")
    rest = taken_words(plan.fields)
    lines += wrap(rest, width, "  - ") if rest else []
    for text in (*plan.assumptions, *plan.notes):
        lines += wrap(flat(text), width, "  - ")
    return lines


def field_words(fields: Sequence[JobField], citations: Citations) -> list[str]:
    """Each field that somebody says: its value, and who says it."""
    told = []
    for field in fields:
        if field.quote is None and not field.says:
            continue
        says = cut(flat(field.says), _SAYS)
        place = "" if field.quote is None else f"{where(field.quote)}{citations.mark([field.quote])}"
        source = ", ".join(part for part in (says, place) if part)
        told.append(f"{field.path} = {cut(flat(field.value), _VALUE)} ({source})")
    return told


def taken_words(fields: Sequence[JobField]) -> str:
    """The fields that nobody says, in one sentence; "" where there are none."""
    taken = [
        f"{field.path} = {cut(flat(field.value), _VALUE)}"
        for field in fields
        if field.quote is None and not field.says
    ]
    return f"Taken, since nothing says otherwise: {', '.join(taken)}." if taken else ""
