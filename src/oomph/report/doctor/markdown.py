"""The answer for an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from oomph import __version__
from oomph.diagnose.machine.model import CheckFinding, Checkup, Told
from oomph.report.clean import cut, flat, without_commands
from oomph.report.doctor import words
from oomph.report.doctor.view import prepare
from oomph.report.markdown import escape, fence, table
from oomph.report.options import ReportOptions

#: Quotes of a finding, and characters of one.
_QUOTES, _QUOTE = 10, 2000
_HEADS = ("check", "of", "why")


def render_markdown(checkup: Checkup, options: ReportOptions) -> str:
    """The whole answer, ending in a newline."""
    view = prepare(checkup, options)
    checkup = view.checkup
    blocks = [[f"### {escape(words.headline(checkup))}"], [escape(view.about)] if view.about else []]
    blocks += [_finding(one) for one in checkup.findings]
    blocks.append(_section("Notes", [f"- {escape(note)}" for note in checkup.notes]))
    missing = words.missing_rows(checkup, everything=True)
    rows = [*_rows(checkup.untold), *((name, "", why) for name, why in missing)]
    blocks.append(_section("Could not tell", table(_HEADS, rows) if rows else []))
    blocks.append(_section("In order", table(_HEADS, _rows(checkup.clear)) if checkup.clear else []))
    read = [f"- {escape(one)}" for one in words.read_words(checkup)]
    read += [f"- not read: {escape(one)}" for one in words.passed_over_words(checkup)]
    blocks += [_section("Read", read), [f"oomph {escape(__version__)}."]]
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"**{title}**", "", *lines] if lines else []


def _rows(several: Iterable[Told]) -> list[tuple[str, str, str]]:
    return [(one.code, one.name, one.why) for one in several]


def _finding(finding: CheckFinding) -> list[str]:
    problem = finding.problem
    lines = [f"**{escape(words.title(finding))}**", "", escape(problem.says)]
    for head, said in (("Effect", problem.does), ("First", problem.fix), ("Not", problem.wrong)):
        if said:
            lines += ["", f"{head}: {escape(said)}"]
        if head == "First" and problem.paste.strip():
            lines += ["", *fence(problem.paste.strip("\n"))]
    quotes = [
        f"{words.place(quote)}{f': {cut(flat(quote.text), _QUOTE)}' if quote.text else ''}"
        for quote in problem.evidence[:_QUOTES]
    ]
    return [*lines, "", *fence("\n".join(quotes))] if quotes else lines
