"""The answers as Markdown, for issues and pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.runs.model import RunFacts, RunsDiff, Suspicion
from oomph.evidence.run.data import RunData
from oomph.report.runs import diff_words, words


def list_markdown(runs: Sequence[RunFacts], left_out: int, notes: Sequence[str] = ()) -> str:
    """`oomph runs list --format markdown`."""
    parts = [_table(words.list_rows(runs)) if runs else "No run."]
    if left_out:
        parts.append(f"{left_out:,} more.")
    return _joined([*parts, _bullets(notes)])


def show_markdown(facts: RunFacts, data: RunData, everything: bool, notes: Sequence[str] = ()) -> str:
    """`oomph runs show --format markdown`."""
    rows = words.phase_rows(data, everything)
    families = ["versions", "gpu", "machine", "environment", "git", "model", "data", "seed"]
    families += ["arguments", "rank", "tag"] if everything else []
    prints = words.fact_rows(facts, families)
    return _joined(
        [
            f"**{_escaped(words.show_headline(facts, data))}**",
            _table([["", ""], *words.about_rows(facts, data)]),
            "### Peaks per phase and rank" if len(rows) > 1 else "",
            _table(rows) if len(rows) > 1 else "",
            words.left_out_words(data, everything),
            "### Fingerprint" if prints else "",
            _table([["fact", "value"], *prints]) if prints else "",
            _bullets([*data.notes, *notes]),
        ]
    )


def diff_markdown(diff: RunsDiff, everything: bool, notes: Sequence[str] = ()) -> str:
    """`oomph runs diff --format markdown`."""
    parts = [f"**{_escaped(diff_words.diff_headline(diff))}**", "### What changed, the most suspicious first"]
    shown = [each for each in diff.suspects if everything or each.suspicion > Suspicion.HARMLESS]
    for number, suspect in enumerate(shown, 1):
        lines = " ".join(diff_words.suspect_words(suspect, diff))
        what = f"{diff_words.SUSPICION[suspect.suspicion]}; {suspect.kind}"
        parts.append(
            f"{number}. `{_code(diff_words.change_words(suspect.change))}` ({what}) {_escaped(lines)}"
        )
    harmless = len(diff.suspects) - len(shown)
    parts.append(
        f"{diff.equal:,} facts are the same"
        + (f", {harmless:,} that differ take no memory." if harmless else ".")
    )
    rows = diff_words.memory_rows(diff, everything)
    if rows:
        parts += ["### Memory", _table(rows)]
    planned = diff_words.planned_words(diff)
    if planned:
        parts += ["### What the plans say", " ".join(planned)]
    return _joined([*parts, _bullets([*diff.notes, *notes])])


def _table(rows: Sequence[Sequence[str]]) -> str:
    heads, *body = rows
    lines = [_row(heads), "|" + "---|" * len(heads), *(_row(each) for each in body)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(words.tidy(each, 600))}" for each in dict.fromkeys(sentences))


def _escaped(text: str) -> str:
    """A text that Markdown and HTML leave as it is."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")


def _code(text: str) -> str:
    return text.replace("`", "'")


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
