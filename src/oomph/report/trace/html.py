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
        return lead_html(text.apply(report)) + "\n"

    def more(text: ShownText) -> str:
        return "\n" + more_html(text.apply(report))

    return html.render_html(report.snapshot, analyses, options, lead=lead, more=more, names=report)


def lead_html(report: TraceReport) -> str:
    """What stands in front: the answer and the peaks. The report's text is harmless already."""
    device = report.shown
    css = "verdict" if report.exit_code else "verdict fine"
    rows = [] if device is None else words.phase_table(device)
    numbers = "lrrlll"
    parts = [
        f'<div class="{css}"><p>{element("strong", words.headline(report))}</p>',
        f"{element('p', words.context(report), 'quiet')}</div>",
        table(rows, numbers[: len(rows[0])]) if rows else "",
    ]
    return "\n".join(part for part in parts if part)


def more_html(report: TraceReport) -> str:
    """What stands below: modules, operators, steps, and what the answer rests on."""
    device = report.shown
    parts: list[str] = []
    if device is not None:
        modules = words.part_rows(device.activations, _PARTS, "module", alive=True)
        operators = words.part_rows(device.temporaries, _PARTS, "operator", alive=False)
        for title, rows in (
            ("Activations by module", modules),
            ("Largest temporaries by operator", operators),
            ("First and later steps", words.step_rows(device)),
        ):
            if rows:
                parts.append(f"<section>{element('h2', title)}{table(rows, 'rrrl')}</section>")
    told = "".join(element("li", sentence) for sentence in words.rests_on(report, device))
    if told:
        parts.append(f"<section>{element('h2', 'What this rests on')}<ul>{told}</ul></section>")
    return "\n".join(parts)
