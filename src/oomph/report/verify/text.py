"""The answer for people: the verdict, and a line for each check."""

from __future__ import annotations

from oomph.diagnose.verify.model import Answer, Status, Verification
from oomph.report.clean import clean, cut, flat, without_commands
from oomph.report.layout import Style, table, wrap
from oomph.report.options import ReportOptions
from oomph.report.verify.words import headline

_LOOK = {Status.PASSED: "good", Status.FAILED: "bad", Status.UNKNOWN: "yellow", Status.SKIPPED: "dim"}


def render_text(found: Verification, options: ReportOptions, *, everything: bool = False) -> str:
    """The whole answer, ending in a newline. `everything`: with the checks that were skipped."""
    style = Style(options.colour)
    look = _LOOK[found.verdict] if found.exit_code == 0 else "bad"
    lines = [style(line, look) for line in wrap(headline(found), options.columns)]
    lines += wrap(clean(flat(f"Run {found.run or found.path} ({found.outcome}).")), options.columns)
    shown = [answer for answer in found.answers if everything or answer.status is not Status.SKIPPED]
    if shown:
        lines += ["", *_rows(shown, options.columns, style)]
    if found.notes:
        lines += ["", style("What could not be read", "heading")]
        lines += [
            line for note in found.notes for line in wrap(clean(flat(cut(note))), options.columns, "  - ")
        ]
    return without_commands("\n".join(lines)) + "\n"


def _rows(answers: list[Answer], width: int, style: Style) -> list[str]:
    """Status, name and text of each; only the status is coloured, after the columns are laid out."""
    rows = [(answer.status.value, answer.name, clean(flat(answer.text))) for answer in answers]
    lines = table(rows, width)
    words = {status.value: look for status, look in _LOOK.items()}
    for place, line in enumerate(lines):
        word = next((each for each in words if line.startswith(f"  {each}  ")), None)
        if word is not None:
            lines[place] = f"  {style(word, words[word])}{line[2 + len(word) :]}"
    return lines
