"""What makes a job fit, for people: the choices, what to write for the first ones, and what each costs."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.remedy.search import FitResult
from oomph.report.clean import without_commands
from oomph.report.layout import Style, wrap
from oomph.report.plan import fit_words as words
from oomph.report.plan.text import PlanOptions, Section
from oomph.report.plan.words import context, refusal
from oomph.report.snapshot.tables import aligned

#: Choices whose lines are shown, without `everything`.
_WRITTEN = 2


def render_fit(found: FitResult, options: PlanOptions) -> str:
    """The whole answer, ending in a newline."""
    style, width = Style(options.colour), options.columns
    if not found.base.ranks:
        return "\n".join(wrap(refusal(found.base), width)) + "\n"
    look = "good" if words.exit_code(found) == 0 else "bad"
    sections: list[Section] = [
        ("", [style(line, look) for line in wrap(words.headline(found), width)]),
        ("", wrap(context(found.base), width)),
    ]
    if found.choices:
        rows = words.choice_rows(found)
        sections.append(("What makes it fit, the fastest first", aligned(rows, width, "lrrll")))
    most = len(found.choices) if options.everything else _WRITTEN
    for number, choice in enumerate(found.choices[:most], 1):
        lines = words.recipe(words.steps(found, choice))
        sections.append((f"For {number}", [f"  {line}".rstrip() for line in lines]))
    sections += [
        ("Time of a step", aligned(words.time_rows(found), width, "rrl" if found.choices else "rl")),
        ("Only if you allow it", _listed(words.not_allowed(found), width)),
        ("What this rests on", _listed(words.notes(found), width)),
    ]
    return _put_together(sections, style)


def _listed(sentences: Sequence[str], width: int) -> list[str]:
    return [line for each in sentences for line in wrap(each, width, "  - ")]


def _put_together(sections: Sequence[Section], style: Style) -> str:
    blocks = []
    for heading, lines in sections:
        if lines:
            title = [style(heading, "heading")] if heading else []
            blocks.append("\n".join([*title, *lines]).rstrip())
    return without_commands("\n\n".join(blocks)) + "\n"
