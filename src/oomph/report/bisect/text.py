"""The answer for people: the cause, what fits, bytes for each unit, the trials, what to run next."""

from __future__ import annotations

from oomph.report.bisect.words import (
    HEADLINES,
    line_words,
    outcome_words,
    peak_words,
    setting_words,
)
from oomph.report.clean import clean, flat, without_commands
from oomph.report.layout import Style, cells, table, wrap
from oomph.report.options import ReportOptions
from oomph.trial.answer import Answer
from oomph.trial.model import shown
from oomph.trial.protocol import Limit, Verdict


def render_text(answer: Answer, options: ReportOptions) -> str:
    """The whole answer, ending in a newline."""
    style, width = Style(options.colour), options.columns
    found = answer.found
    look = "good" if answer.exit_code == 0 and found.verdict is not Verdict.LEAK else "bad"
    headline = HEADLINES[found.verdict]
    if found.verdict is Verdict.CAUSE:
        headline = f"The cause is {found.causes[-1]}"
    elif found.verdict is Verdict.TOGETHER:
        headline = f"The cause is {' and '.join(found.causes)} together"
    lines = [style(line, look) for line in wrap(clean(flat(headline)), width)]
    lines += _wrapped(found.why, width)
    if found.setting is not None and found.verdict is not Verdict.PASSES:
        lines += ["", style("Largest that fits", "heading")]
        lines += table([_limit(one, answer) for one in found.limits], width)
    if answer.lines:
        lines += ["", style("Bytes", "heading")]
        rows = [
            (clean(f"{name}, {one.phase}"), line_words(one, clean(name)))
            for name, each in answer.lines.items()
            for one in each
        ]
        lines += table(rows, width)
    if answer.recommended is not None:
        lines += ["", style("Recommended", "heading")]
        chosen = answer.recommended
        lines += _wrapped(f"{setting_words(chosen.setting)}: {chosen.why}.", width)
    lines += ["", style("Trials", "heading")]
    lines += _trials(answer, width)
    for title, sentences in (("Not tested", answer.not_tested), ("Notes", answer.notes)):
        if sentences:
            lines += ["", style(title, "heading")]
            lines += [line for one in sentences for line in wrap(clean(flat(one)), width, "  - ")]
    if answer.next_commands:
        lines += ["", style("Next", "heading")]
        lines += [f"  {clean(flat(one))}" for one in answer.next_commands]
    lines += ["", *wrap(clean(flat(f"Kept in {answer.folder}")), width)]
    return without_commands("\n".join(lines)) + "\n"


def _trials(answer: Answer, width: int) -> list[str]:
    """A line for each; where the columns are too many for the terminal, in a sentence that wraps."""
    rows = [
        (
            str(one.number),
            clean(flat(setting_words(one.setting))),
            clean(flat(outcome_words(one))),
            clean(flat(peak_words(one))),
        )
        for one in answer.trials
    ]
    lines = table(rows, width)
    if all(cells(line) <= width for line in lines):
        return lines
    return table([(row[0], ", ".join(word for word in row[1:] if word)) for row in rows], width)


def _wrapped(sentence: str, width: int) -> list[str]:
    return wrap(clean(flat(sentence)), width)


def _limit(limit: Limit, answer: Answer) -> tuple[str, str]:
    at = setting_words(limit.at)
    if limit.known:
        fails = f"; {shown(limit.fails)} fails" if limit.fails is not None else ""
        return clean(limit.variable), clean(
            flat(
                f"{'' if limit.largest is None else shown(limit.largest)}{f' with {at}' if at else ''}{fails}"
            )
        )
    given = next(one.values[0] for one in answer.variables if one.name == limit.variable)
    what = "as given" if limit.largest == given else "larger ones not tried"
    return clean(limit.variable), clean(
        flat(f"{'' if limit.largest is None else shown(limit.largest)} ({what})")
    )
