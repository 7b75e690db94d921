"""The answers for people at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.diagnose.runs.model import RunFacts, RunsDiff, Suspicion
from oomph.evidence.run.data import RunData
from oomph.report.clean import without_commands
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.runs import diff_words, words
from oomph.report.snapshot.tables import aligned, aligned_rows

#: Suspects, notes and facts that are listed without `everything`.
_SUSPECTS, _NOTES = 8, 8
#: Families of facts that `show` prints, and those with --all only.
_SHOWN = ("versions", "gpu", "machine", "environment", "git", "model", "data", "seed")
_MORE = ("arguments", "rank", "tag")

#: A section: its heading ("" for none) and its lines.
Section = tuple[str, list[str]]


@dataclass(frozen=True)
class RunsOptions(ReportOptions):
    """`everything` leaves nothing out."""

    everything: bool = False


def list_text(
    runs: Sequence[RunFacts], left_out: int, options: RunsOptions, notes: Sequence[str] = (), where: str = ""
) -> str:
    """`oomph runs list`."""
    width = options.columns
    if not runs:
        lines = wrap(f"No run{where}.", width)
    else:
        heads = aligned_rows([words.run_line(run) for run in runs], width, "lllrrl", indent="")
        lines = [
            line
            for run, head in zip(runs, heads, strict=True)
            for line in (*head, *wrap(words.run_details(run), width, "    "))
        ]
    if left_out:
        lines += ["", *wrap(f"{left_out:,} more (--limit shows them).", width)]
    return _put_together([("", lines), ("Notes", _bullets(notes, width))], options)


def show_text(facts: RunFacts, data: RunData, options: RunsOptions, notes: Sequence[str] = ()) -> str:
    """`oomph runs show`."""
    width, style = options.columns, Style(options.colour)
    failed = data.first_failure
    look = "bad" if failed is not None else "good"
    headline = [style(line, look) for line in wrap(words.show_headline(facts, data), width)]
    rows = words.phase_rows(data, options.everything)
    phases = aligned(rows, width, "lrrrrrrr") if len(rows) > 1 else []
    told = words.left_out_words(data, options.everything)
    families = (*_SHOWN, *_MORE) if options.everything else _SHOWN
    fingerprint = aligned(words.fact_rows(facts, families), width, "ll")
    arguments = sum(key.startswith("arguments.") for key in facts.values)
    if arguments and not options.everything:
        fingerprint += wrap(f"and {arguments:,} arguments (--all lists them)", width, "  ")
    missing = [f"{name}: {why}" for name, why in facts.missing.items()]
    every = [*data.notes, *(note.text for rank in data.ranks.values() for note in rank.notes), *notes]
    sections: list[Section] = [
        ("", headline),
        ("", aligned(words.about_rows(facts, data), width, "ll")),
        ("Who failed first", wrap(failed.why, width, "  ") if failed is not None else []),
        ("Peaks per phase and rank", [*phases, *wrap(told, width, "  ")]),
        ("Fingerprint", fingerprint),
        ("Not known", _bullets(missing, width) if options.everything else _few(missing, width)),
        ("Notes", _bullets(list(dict.fromkeys(every)), width) if options.everything else _few(every, width)),
    ]
    return _put_together(sections, options)


def diff_text(diff: RunsDiff, options: RunsOptions, notes: Sequence[str] = ()) -> str:
    """`oomph runs diff`."""
    width, style = options.columns, Style(options.colour)
    look = "bad" if diff_words.diff_exit_code(diff) else "good"
    headline = [style(line, look) for line in wrap(diff_words.diff_headline(diff), width)]
    rows = diff_words.memory_rows(diff, options.everything)
    told = [*diff.notes, *notes]
    sections: list[Section] = [
        ("", headline),
        ("What changed, the most suspicious first", _suspects(diff, options, style)),
        ("Memory", aligned(rows, width, "lrrr") if rows else []),
        (
            "What the plans say",
            [line for each in diff_words.planned_words(diff) for line in wrap(each, width, "  ")],
        ),
        ("Notes", _bullets(told, width)),
    ]
    return _put_together(sections, options)


def _suspects(diff: RunsDiff, options: RunsOptions, style: Style) -> list[str]:
    """A block for each; the harmless ones are counted."""
    width = options.columns
    shown = [each for each in diff.suspects if options.everything or each.suspicion > Suspicion.HARMLESS]
    harmless = len(diff.suspects) - len(shown)
    cut = shown if options.everything else shown[:_SUSPECTS]
    lines: list[str] = []
    for number, suspect in enumerate(cut, 1):
        what = f"{diff_words.SUSPICION[suspect.suspicion]}; {suspect.kind}"
        first = f"{diff_words.change_words(suspect.change)}  ({what})"
        head = wrap(first, width, f"  {number}. ")
        lines += [style(line, "bold") for line in head]
        if suspect.suspicion > Suspicion.UNLIKELY or options.everything:
            lines += [
                line
                for each in diff_words.suspect_words(suspect, diff)
                for line in wrap(each, width, "     ")
            ]
    counted = []
    if len(shown) > len(cut):
        counted.append(f"{len(shown) - len(cut):,} more that are less suspicious")
    if harmless:
        counted.append(f"{harmless:,} that take no memory")
    if counted:
        lines += wrap(f"and {', '.join(counted)} (--all lists them)", width, "  ")
    if not diff.suspects:
        lines += wrap("nothing that was recorded beside memory", width, "  ")
    return [*lines, *wrap(f"{diff.equal:,} facts are the same.", width, "  ")]


def _few(sentences: Sequence[str], width: int) -> list[str]:
    unique = list(dict.fromkeys(sentences))
    more = len(unique) - _NOTES
    return [
        *_bullets(unique[:_NOTES], width),
        *([f"  - and {more:,} more (--all lists them)"] if more > 0 else []),
    ]


def _bullets(sentences: Sequence[str], width: int) -> list[str]:
    return [line for each in sentences for line in wrap(words.tidy(each, 600), width, "  - ")]


def _put_together(sections: Sequence[Section], options: RunsOptions) -> str:
    style, blocks = Style(options.colour), []
    for heading, lines in sections:
        if lines:
            title = [style(heading, "heading")] if heading else []
            blocks.append("\n".join(line.rstrip() for line in [*title, *lines]))
    text = without_commands("\n\n".join(blocks)) + "\n"
    return text if options.unicode else text.encode("ascii", "replace").decode("ascii")
