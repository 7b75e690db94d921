"""The answer for an issue or a pull request: short, with the tables of terms folded away."""

from __future__ import annotations

from collections.abc import Sequence

from oomph import __version__
from oomph.predict.model import Plan, RankPlan
from oomph.report.clean import without_commands
from oomph.report.markdown import escape, table
from oomph.report.plan import words

#: Terms that are listed, unless all are asked for.
_TERMS = 20


def render_markdown(plan: Plan, shown: RankPlan | None = None, *, everything: bool = False) -> str:
    """The whole answer, ending in a newline. `shown` is the rank to look at (None: the one that needs the most)."""
    blocks = [[f"### {escape(words.headline(plan, shown))}"], [escape(words.context(plan))]]
    if plan.ranks:
        blocks += _rank(plan, shown or plan.worst, everything)
    blocks.append(_listed("Host RAM of one machine", words.host_words(plan)))
    blocks.append(_listed("What this rests on", [*plan.assumptions, *plan.notes]))
    blocks.append([f"oomph {escape(__version__)}."])
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"


def _rank(plan: Plan, rank: RankPlan, everything: bool) -> list[list[str]]:
    blocks = []
    if len(plan.ranks) > 1:
        blocks.append(_table("All ranks", words.rank_rows(plan)))
    blocks.append(_table(f"Peaks ({rank.ranks})", words.phase_rows(plan, rank)))
    blocks.append([escape(text) for text in (words.allocator_words(rank), words.end_words(rank)) if text])
    shown = words.shown_peak(plan, rank)
    others = [peak for peak in rank.phases.values() if peak is not shown] if everything else []
    for peak in (shown, *others):
        rows = words.term_rows(peak, None if everything else _TERMS, pages=everything)
        where = f" ({peak.where})" if peak.where else ""
        title = f"What is alive at the peak {words.phase_of(peak.phase)}{where}"
        if peak is shown:
            blocks.append(_table(title, words.category_rows(peak)))
        if rows:
            lines = [f"<summary>{escape(title)}: terms</summary>", "", *table(rows[0], rows[1:]), ""]
            blocks.append(["<details>", *lines, "</details>"])
    blocks.append(_listed("Outside PyTorch", words.outside_words(plan, rank)))
    return blocks


def _table(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"**{escape(title)}**", "", *table(rows[0], rows[1:])] if rows else []


def _listed(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"**{escape(title)}**", "", *(f"- {escape(each)}" for each in sentences)] if sentences else []
