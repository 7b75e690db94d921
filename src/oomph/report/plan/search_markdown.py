"""Searches for what fits, for an issue or a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.job.model import Job
from oomph.remedy.largest import Largest
from oomph.remedy.machines import MachineFit
from oomph.remedy.search import FitResult
from oomph.report.clean import without_commands
from oomph.report.markdown import escape, table
from oomph.report.plan import fit_words, search_words
from oomph.report.plan.words import Rows, context, refusal


def render_fit(found: FitResult) -> str:
    """What makes it fit."""
    if not found.base.ranks:
        return f"### {escape(refusal(found.base))}\n"
    blocks = [[f"### {escape(fit_words.headline(found))}"], [escape(context(found.base))]]
    if found.choices:
        blocks.append(_table(fit_words.choice_rows(found)))
    for number, choice in enumerate(found.choices, 1):
        lines = fit_words.recipe(fit_words.steps(found, choice))
        fenced = ["```", *(line.replace("```", "'''") for line in lines), "```"]
        blocks.append(["<details>", f"<summary>For {number}</summary>", "", *fenced, "", "</details>"])
    blocks.append(_table(fit_words.time_rows(found)))
    blocks.append(_listed("Only if you allow it", fit_words.not_allowed(found)))
    blocks.append(_listed("What this rests on", fit_words.notes(found)))
    return _joined(blocks)


def render_largest(found: Largest, job: Job) -> str:
    """The largest that fits."""
    notes = [f"- {escape(each)}" for each in search_words.largest_notes(found, job)]
    return _joined([[f"### {escape(search_words.largest_headline(found))}"], notes])


def render_machines(found: Sequence[MachineFit]) -> str:
    """Machines compared."""
    notes = [f"- {escape(each)}" for each in search_words.machine_notes(found)]
    head = [f"### {escape(search_words.machines_headline(found))}"]
    return _joined([head, _table(search_words.machine_rows(found)), notes])


def _table(rows: Rows) -> list[str]:
    return list(table(rows[0], rows[1:])) if len(rows) > 1 else []


def _listed(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"**{escape(title)}**", "", *(f"- {escape(each)}" for each in sentences)] if sentences else []


def _joined(blocks: Sequence[list[str]]) -> str:
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"
