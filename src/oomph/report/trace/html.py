"""The page of a trace: that of its snapshot, with whether it fits and the peaks of phases in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.diagnose.trace.model import TraceReport
from oomph.report.options import ReportOptions
from oomph.report.snapshot import html
from oomph.report.snapshot.html_text import element, table
from oomph.report.trace import words
from oomph.report.view import ShownText

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Modules and operators that are listed.
_PARTS = 20


def render_html(report: TraceReport, analyses: Sequence[Analysis], options: ReportOptions) -> str:
    """The page of one traced process. `analyses` are those that the report was made from."""

    def lead(text: ShownText) -> str:
        return lead_html(text.apply(report))

    return html.render_html(report.snapshot, analyses, options, lead=lead, names=report)


def lead_html(report: TraceReport) -> str:
    """What stands in front: the answer, the peaks, the modules, and what it rests on. The report's text is harmless
    already."""
    device = report.shown
    css = "verdict" if report.exit_code else "verdict fine"
    parts = [
        f'<div class="{css}"><p>{element("strong", words.headline(report))}</p>',
        element("p", words.context(report), "quiet") + "</div>",
    ]
    if device is not None:
        for title, rows, numbers in (
            ("Peaks", words.phase_table(device), "lrrlll"),
            (
                "Activations by module",
                words.part_rows(device.activations, _PARTS, "module", alive=True),
                "rrrl",
            ),
            (
                "Largest temporaries by operator",
                words.part_rows(device.temporaries, _PARTS, "operator", alive=False),
                "rrrl",
            ),
            ("First and later steps", words.step_rows(device), "rrrl"),
        ):
            if rows:
                parts += [element("h2", title), table(rows, numbers[: len(rows[0])])]
    told = "".join(element("li", sentence) for sentence in words.rests_on(report, device))
    return "\n".join([*parts, *([element("h2", "What this rests on"), f"<ul>{told}</ul>"] if told else [])])
