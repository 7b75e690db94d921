"""The comparison for people: phase by phase, what the differences are worth, and what was beside the tensors."""

from __future__ import annotations

from oomph.diagnose.verify.against.model import Against
from oomph.report.clean import clean, cut, flat, without_commands
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.plan.words import context, weightiest_first
from oomph.report.snapshot.tables import aligned
from oomph.report.verify import against_words as words

_SENTENCES, _SENTENCE = 6, 600


def render_text(found: Against, options: ReportOptions, *, everything: bool = False) -> str:
    """The whole answer, ending in a newline. `everything`: with all that the prediction rests on."""
    style, width = Style(options.colour), options.columns
    look = "good" if found.exit_code == 0 else "bad"
    blocks = [[style(line, look) for line in wrap(words.headline(found), width)]]
    said = f"Run {found.data.run.id or found.data.path} ({found.data.outcome}), against {found.source}."
    blocks.append(wrap(clean(flat(said)), width) + wrap(clean(context(found.plan)), width))
    if found.plan.ranks:
        blocks += _sections(found, style, width)
    told = [*found.notes, *weightiest_first([*found.plan.assumptions, *found.plan.notes])]
    shown = told if everything else told[:_SENTENCES]
    lines = [line for note in shown for line in wrap(clean(flat(cut(note, _SENTENCE))), width, "  - ")]
    if len(told) > len(shown):
        lines.append(f"  - and {len(told) - len(shown):,} more (--explain lists them)")
    blocks.append([style("What this rests on", "heading"), *lines] if lines else [])
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"


def _sections(found: Against, style: Style, width: int) -> list[list[str]]:
    peaks = aligned(words.phase_rows(found), width, "lrrrl")
    peaks += wrap(words.first_step(found), width, "  ")
    blocks = [[style("Peaks of allocated memory", "heading"), *peaks]]
    lines: list[str] = []
    for text, worth in words.cause_rows(found):
        lines += wrap(clean(flat(text)), width, "  - ")
        lines += wrap(clean(flat(worth)), width, "      ")
    left = [sentence for row in found.rows if (sentence := words.explained(row))]
    lines += [line for sentence in left for line in wrap(sentence, width, "  ")]
    if lines:
        blocks.append([style("In what the run was not as planned", "heading"), *lines])
    if found.categories is not None:
        lines = aligned(words.category_rows(found), width, "lrrrl")
        lines += wrap(found.categories.text, width, "  ")
        blocks.append([style("By category", "heading"), *lines])
    elif found.why_no_categories:
        blocks.append(wrap(clean(f"Not compared by category: {found.why_no_categories}."), width))
    if found.beside is not None:
        sentences = words.beside_words(found.beside)
        lines = [line for sentence in sentences for line in wrap(sentence, width, "  ")]
        if lines:
            blocks.append([style("Beside the tensors", "heading"), *lines])
    return blocks
