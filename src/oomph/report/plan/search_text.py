"""The largest that fits, and machines compared, for people."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.job.model import Job
from oomph.remedy.largest import Largest
from oomph.remedy.machines import MachineFit
from oomph.report.clean import without_commands
from oomph.report.layout import Style, wrap
from oomph.report.plan import search_words as words
from oomph.report.plan.text import PlanOptions
from oomph.report.snapshot.tables import aligned


def render_largest(found: Largest, job: Job, options: PlanOptions) -> str:
    """The whole answer, ending in a newline."""
    head = _head(words.largest_headline(found), bool(found.value), options)
    return _joined([head, _listed(words.largest_notes(found, job), options.columns)])


def render_machines(found: Sequence[MachineFit], options: PlanOptions) -> str:
    """The whole answer, ending in a newline."""
    head = _head(words.machines_headline(found), any(each.fits for each in found), options)
    rows = words.machine_rows(found, everything=options.everything)
    lines = aligned(rows, options.columns, "lrrrll") if len(rows) > 1 else []
    rest = [] if options.everything else wrap(words.machine_rest(found), options.columns)
    return _joined([head, lines, rest, _listed(words.machine_notes(found), options.columns)])


def _head(text: str, good: bool, options: PlanOptions) -> list[str]:
    style = Style(options.colour)
    return [style(line, "good" if good else "bad") for line in wrap(text, options.columns)]


def _listed(sentences: Sequence[str], width: int) -> list[str]:
    return [line for each in sentences for line in wrap(each, width, "  - ")]


def _joined(blocks: Sequence[list[str]]) -> str:
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"
