"""The answer for people who plan: does it fit, on which rank, in which phase it breaks, and what is alive there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.predict.model import PhasePeak, Plan, RankPlan
from oomph.report.clean import without_commands
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.plan import words
from oomph.report.plan.job_words import tidy
from oomph.report.snapshot.tables import aligned

#: Terms and sentences that are listed without `everything`.
_TERMS, _SENTENCES = 8, 8
#: Characters of a sentence that came from elsewhere.
_SENTENCE = 2000
_MANY_BLANK_LINES = re.compile(r"\n{3,}")

#: A section: its heading ("" for none) and its lines.
Section = tuple[str, list[str]]


@dataclass(frozen=True)
class PlanOptions(ReportOptions):
    """`everything` lists every term of every phase, with the page that explains it."""

    everything: bool = False


def render_text(plan: Plan, options: PlanOptions, shown: RankPlan | None = None) -> str:
    """The whole answer, ending in a newline. `shown` is the rank to look at (None: the one that needs the most)."""
    return PlanText(plan, options, shown).render()


class PlanText:
    """The sections of the text report of a plan."""

    def __init__(self, plan: Plan, options: PlanOptions, shown: RankPlan | None = None) -> None:
        self.plan = plan
        self.options = options
        self.style = Style(options.colour)
        self.width = options.columns
        self.everything = options.everything
        self.rank = shown or (plan.worst if plan.ranks else None)

    def render(self) -> str:
        """The whole text."""
        sections: list[Section] = [("", self._headline()), ("", wrap(words.context(self.plan), self.width))]
        if self.rank is not None:
            sections += self._rank(self.rank)
        sections += [
            ("Host RAM of one machine", self._indented(words.host_words(self.plan))),
            ("What this rests on", self._listed()),
        ]
        return self._put_together(sections)

    def _headline(self) -> list[str]:
        code = words.exit_code(self.plan)
        look = "good" if code == 0 else "bad"
        text = words.headline(self.plan, self.rank)
        return [self.style(line, look) for line in wrap(text, self.width)]

    def _rank(self, rank: RankPlan) -> list[Section]:
        """The peaks of phases, what is alive at the one that matters, and what comes on top."""
        plan = self.plan
        sections: list[Section] = []
        if len(plan.ranks) > 1:
            sections.append(("All ranks", aligned(words.rank_rows(plan), self.width, "lrrll")))
        title = "Peaks" if len(plan.ranks) == 1 else f"Peaks of {tidy(rank.ranks)}"
        rows = words.phase_rows(plan, rank)
        lines = aligned(rows, self.width, "lrrrl" if len(rows[0]) > 4 else "lrrl")
        lines += self._indented([words.allocator_words(rank), words.end_words(rank)])
        sections.append((title, lines))
        peak = words.shown_peak(plan, rank)
        sections.append((f"What is alive at the peak {words.phase_of(peak.phase)}", self._alive(peak)))
        if self.everything:
            others = [each for each in rank.phases.values() if each is not peak]
            sections += [(f"The peak {words.phase_of(each.phase)}", self._alive(each)) for each in others]
        sections.append(("Outside PyTorch", self._indented(words.outside_words(plan, rank))))
        return sections

    def _alive(self, peak: PhasePeak) -> list[str]:
        """Where the peak is, its categories, and its terms."""
        rows = words.category_rows(peak)
        if not rows:
            return []
        where = [words.place(peak)]
        terms = words.term_rows(peak, None if self.everything else _TERMS, pages=self.everything)
        lines = [*self._indented(where), *aligned(rows, self.width, "lrr"), ""]
        return [*lines, *aligned(terms, self.width, "rrlll")]

    def _listed(self) -> list[str]:
        plan = self.plan
        told = words.weightiest_first([*plan.assumptions, *plan.notes])
        shown = told if self.everything else told[:_SENTENCES]
        lines = [line for sentence in shown for line in wrap(tidy(sentence, _SENTENCE), self.width, "  - ")]
        more = len(told) - len(shown)
        return [*lines, f"  - and {more:,} more (--explain lists them)"] if more else lines

    def _indented(self, sentences: Sequence[str]) -> list[str]:
        return [line for sentence in sentences if sentence for line in wrap(sentence, self.width, "  ")]

    def _put_together(self, sections: Sequence[Section]) -> str:
        """Sections that have lines, with their headings, one blank line apart."""
        blocks = []
        for heading, lines in sections:
            if lines:
                title = [self.style(line, "heading") for line in wrap(heading, self.width)]
                blocks.append("\n".join(line.rstrip() for line in [*title, *lines]).strip("\n"))
        return without_commands(_MANY_BLANK_LINES.sub("\n\n", "\n\n".join(blocks))) + "\n"
