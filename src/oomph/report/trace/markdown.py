"""The answer for an issue or a pull request: short, with the tables folded away."""

from __future__ import annotations

from collections.abc import Sequence

from oomph import __version__
from oomph.diagnose.trace.model import TraceReport
from oomph.report.markdown import escape, table
from oomph.report.options import ReportOptions
from oomph.report.snapshot.markdown import HOLDERS, folded, pasted, section
from oomph.report.snapshot.text_alive import holder_row, share_rows
from oomph.report.snapshot.text_more import trial_rows
from oomph.report.snapshot.words import moment_title, sentence
from oomph.report.trace import words
from oomph.report.trace.text import fullest
from oomph.report.trace.view import prepare
from oomph.report.trace.wire import Largest

#: Modules and operators, and entries of a list.
_PARTS, _SENTENCES = 10, 10


def render_markdown(
    reports: Sequence[TraceReport], options: ReportOptions, largest: Largest | None = None
) -> str:
    """The answer for the traced ranks of one job, ending in a newline. `largest` is what `--largest` found."""
    views = prepare(reports, options, HOLDERS, merged=True)
    view = fullest(views)
    report, device = view.report, view.report.shown
    blocks = [[f"### {escape(words.headline(report))}"], [escape(words.context(report))]]
    if largest is not None:
        blocks.insert(0, [f"### {escape(words.largest_words(largest))}"])
    if len(views) > 1:
        rows = words.rank_rows([one.report for one in views])
        blocks.append(section("All ranks", table(rows[0], rows[1:])))
    shown = view.snapshot.device
    if device is not None and shown is not None:
        for title, rows in (
            ("Peaks", words.phase_table(device)),
            (f"What was alive {moment_title(shown.moment)}", share_rows(shown.shares)),
        ):
            if rows:
                blocks.append(section(title, table(rows[0], rows[1:])))
        if shown.failure is not None:
            blocks.append(
                section(
                    f"Why: {shown.failure.verdict} ({shown.failure.certainty})",
                    [escape(sentence(shown.failure.says))],
                )
            )
        if shown.what_if is not None:
            trials = trial_rows(shown.what_if)
            blocks.append(section("What if", [escape(shown.what_if.says), "", *table(trials[0], trials[1:])]))
        heads = ("size", "blocks", "category", "phase", "allocated at")
        holders = [holder_row(holder) for holder in shown.holders]
        blocks.append(folded("Where the most was allocated", table(heads, holders) if holders else []))
        for title, rows in (
            ("Activations by module", words.part_rows(device.activations, _PARTS, "module", alive=True)),
            (
                "Largest temporaries by operator",
                words.part_rows(device.temporaries, _PARTS, "operator", alive=False),
            ),
            ("First and later steps", words.step_rows(device)),
        ):
            blocks.append(folded(title, table(rows[0], rows[1:]) if rows else []))
    told = [f"- {escape(one)}" for one in words.rests_on(report, device, _SENTENCES)]
    blocks += [section("What this rests on", told), [f"oomph {escape(__version__)}."]]
    return pasted(blocks)
