"""The answer for an issue tracker: Markdown that can be pasted, and in which a log cannot draw anything itself.

Text of the input stands in fenced code blocks, with fences longer than any run of backticks in them; what stands
outside (names, sentences) is escaped, mentions and issue references included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph import __version__
from oomph.diagnose.model import Diagnosis, Outcome, Step
from oomph.evidence.model import Kind, Quote
from oomph.report.bar import contradictions, ledger_table
from oomph.report.citations import Citations
from oomph.report.clean import cut, flat, without_commands
from oomph.report.options import ReportOptions
from oomph.report.planned import HEADING, field_words, taken_words
from oomph.report.text_lists import rank_lines
from oomph.report.view import View, prepare
from oomph.report.words import (
    asked_words,
    fact_words,
    frame_words,
    headline,
    no_finding,
    phase_words,
    plural,
    read_so_far,
    segment_words,
    where,
)
from oomph.units import format_bytes

#: Characters of a quote, quotes in the evidence block, and incidents in the table.
_QUOTE = 2000
_QUOTES = 40
_INCIDENTS = 20

#: Inline marks of Markdown, tables and mathematics; and what starts a block at the start of a line.
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_BLOCK = re.compile(r"^(?:#(?=[# ]|$)|[+-](?=\s|$)|--|=+(?=$)|\d{1,9}(?=[.)](?:\s|$)))")
#: What trackers turn into mentions, references and links: a character after which an invisible one breaks them.
_REFERENCE = re.compile(r"@(?=\w)|[#!](?=\d)|:(?=//)|(?i:www)(?=\.)|(?i:gh)(?=-\d)")
#: Wide enough that the lists shared with the text report are not wrapped.
_UNWRAPPED = 100_000


def render_markdown(diagnosis: Diagnosis, options: ReportOptions) -> str:
    """The whole report, ending in a newline."""
    return _Page(prepare(diagnosis, options), options).render()


def escape(text: str) -> str:
    """`text` on one line, so that Markdown and HTML show it as it is; no mention, no reference, no link."""
    text = flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    text = _REFERENCE.sub(lambda match: f"{match[0]}\u200b", text)
    return _BLOCK.sub(lambda match: f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}", text)


def fence(text: str, language: str = "") -> list[str]:
    """`text` as a fenced code block; the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return [f"{ticks}{language}", *text.split("\n"), ticks]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of escaped cells."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return lines + [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]


class _Page:
    def __init__(self, view: View, options: ReportOptions) -> None:
        self.view = view
        self.diagnosis = view.diagnosis
        self.options = options
        self.citations = Citations(shown=True)

    def render(self) -> str:
        blocks = [[f"### {escape(headline(self.view))}"]]
        if self.diagnosis.outcome is Outcome.RECOVERED:
            blocks.append(["The job went on after that: it did not end for lack of memory."])
        if self.diagnosis.outcome is not Outcome.NO_OOM or self.view.incident is not None:
            blocks += self._failure()
        blocks += [
            self._incidents(),
            self._other_errors(),
            self._section("Notes", [f"- {escape(note)}" for note in self._notes()]),
            self._environment(),
            self._evidence(),
            [f"Read {escape(read_so_far(self.view))} with oomph {escape(__version__)}."],
        ]
        return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"

    def _section(self, title: str, lines: Sequence[str]) -> list[str]:
        lines = list(lines)
        while lines and not lines[-1]:
            lines.pop()
        return [f"**{title}**", "", *lines] if lines else []

    def _failure(self) -> list[list[str]]:
        blocks = [self._ledger(), self._phase()]
        if self.view.is_explained:
            blocks += [self._findings(), self._ruled_out()]
        blocks.append(self._ranks())
        if self.view.is_explained:
            blocks += self._advice()
        return blocks

    def _ledger(self) -> list[str]:
        incident = self.view.incident
        if incident is None:
            return []
        if incident.failure.kind is Kind.NOT_MEMORY:
            return self._section("What looks like one", self._quotes([incident.failure.quote]))
        rows = ledger_table(incident.ledger, self.options)
        words = " ".join(
            filter(
                None,
                (
                    asked_words(incident.ledger),
                    segment_words(incident, rounded_up=self.view.sizes_rounded_up),
                ),
            )
        )
        doubts = contradictions(incident.ledger, ReportOptions(width=_UNWRAPPED), self.diagnosis.notes, "")
        lines = table(("memory", "size", "how it is known"), rows) if rows else []
        lines += ["", escape(words)] if words else []
        if doubts:
            lines += ["", doubts[0], "", *[f"- {escape(doubt.removeprefix('- '))}" for doubt in doubts[1:]]]
        self.citations.mark([incident.failure.quote])
        return lines or ["The failure printed no numbers: how the memory was used is unknown."]

    def _phase(self) -> list[str]:
        verdict = self.view.phase
        if verdict is None:
            return []
        mark = self.citations.mark([verdict.quote])
        words = phase_words(verdict).removeprefix("in ").removeprefix("during ")
        lines = [f"**Phase:** {escape(words)}: {escape(verdict.why)}{mark}"]
        if verdict.frame is not None:
            code = f"\n    {cut(flat(verdict.frame.code), _QUOTE)}" if verdict.frame.code else ""
            lines += ["", *fence(frame_words(verdict.frame) + code)]
        return lines

    def _findings(self) -> list[str]:
        if not self.diagnosis.findings:
            nothing = escape(no_finding(self.view))
            return self._section("Why", [nothing] if self.diagnosis.outcome is Outcome.FAILED else [])
        lines = []
        for number, finding in enumerate(self.diagnosis.findings, 1):
            name = f"**{escape(finding.code)} {escape(finding.name)}** ({escape(str(finding.certainty))})"
            says = f"{escape(finding.says)}{self.citations.mark(finding.evidence)}"
            lines.append(f"{number}. {name}: {says}")
        return self._section("Why", lines)

    def _ruled_out(self) -> list[str]:
        lines = [f"- {escape(ruled.cause)}: {escape(ruled.why)}" for ruled in self.diagnosis.ruled_out]
        return self._section("Ruled out", lines)

    def _ranks(self) -> list[str]:
        lines = [line.strip().removeprefix("- ") for line in rank_lines(self.diagnosis, _UNWRAPPED)]
        return self._section("Ranks", [f"- {escape(line)}" for line in lines])

    def _advice(self) -> list[list[str]]:
        advice = self.diagnosis.advice
        if advice is None:
            return []
        first = advice.first
        lines = [f"{escape(first.title)}.  ", escape(first.text)] if first.text else [escape(first.title)]
        lines += ["", *fence(first.paste.strip("\n"))] if first.paste.strip() else []
        if first.frees_bytes is not None:
            lines += ["", escape(f"It frees about {format_bytes(first.frees_bytes)}, by the figures above.")]
        if first.predicted is not None:
            lines += ["", escape(first.predicted.says)]
        then = [f"- {escape(outcome)}: {escape(follows)}" for outcome, follows in first.outcomes]
        then += [line for step in advice.then for line in self._step(step)]
        return [
            self._section("First change", lines),
            self._section("Then", then),
            self._section("Do not", [f"- {escape(text)}" for text in advice.avoid]),
            self._section("Collect", [line for step in advice.collect for line in self._step(step)]),
            self._section(HEADING, self._planned()),
        ]

    def _planned(self) -> list[str]:
        plan = self.diagnosis.plan
        if plan is None:
            return []
        told = [*field_words(plan.fields, self.citations), taken_words(plan.fields)]
        listed = [text for text in (*told, *plan.assumptions, *plan.notes) if text]
        return [escape(plan.agreement.says), "", *[f"- {escape(text)}" for text in listed]]

    def _step(self, step: Step) -> list[str]:
        text = f": {escape(step.text)}" if step.text else ""
        lines = [f"- {escape(step.title.rstrip('.'))}{text}"]
        if step.paste.strip():
            lines += ["", *[f"  {line}" for line in fence(step.paste.strip("\n"))], ""]
        if step.predicted is not None:
            lines += [f"  {escape(step.predicted.says)}"]
        return lines

    def _incidents(self) -> list[str]:
        incidents = self.view.incidents
        if len(incidents) < 2 and self.diagnosis.outcome is not Outcome.RECOVERED:
            return []
        shown = incidents if self.options.all_incidents else incidents[:_INCIDENTS]
        rows = [
            (
                "?" if incident.rank is None else str(incident.rank),
                str(incident.phase.phase),
                incident.status,
                asked_words(incident.ledger) or "no numbers",
                where(incident.failure.quote),
            )
            for incident in shown
        ]
        lines = table(("rank", "phase", "status", "memory", "printed at"), rows)
        more = len(incidents) - len(shown)
        return self._section("Incidents", [*lines, *(["", f"and {more:,} more"] if more else [])])

    def _other_errors(self) -> list[str]:
        shown = self.diagnosis.other_errors[:5]
        more = len(self.diagnosis.other_errors) - len(shown)
        lines = self._quotes(shown) if shown else []
        return self._section(
            "Other errors, not of memory", [*lines, *([f"and {more:,} more"] if more else [])]
        )

    def _notes(self) -> list[str]:
        notes = [*self.diagnosis.notes, *self.diagnosis.evidence.notes]
        notes += [f"{source.name}: {note}" for source in self.view.sources for note in source.notes]
        return list(dict.fromkeys(notes))

    def _environment(self) -> list[str]:
        rows = []
        for fact in self.diagnosis.job:
            name, value = fact_words(fact.name, fact.value)
            rows.append((name, cut(value, 300) + self.citations.mark([fact.quote])))
        return self._section("Environment and job", table(("fact", "value"), rows) if rows else [])

    def _evidence(self) -> list[str]:
        quotes = self.citations.quotes
        if not quotes:
            return []
        shown = quotes if self.options.explain_evidence else quotes[:_QUOTES]
        numbered = [f"[{number}] {self._told(quote)}" for number, quote in enumerate(shown, 1)]
        if len(shown) < len(quotes):
            numbered.append(f"and {len(quotes) - len(shown):,} more")
        summary = f"<summary>Evidence: {plural(len(quotes), 'quote')}</summary>"
        return ["<details>", summary, "", *fence("\n".join(numbered), "text"), "", "</details>"]

    def _quotes(self, quotes: Iterable[Quote]) -> list[str]:
        return fence("\n".join(self._told(quote) for quote in quotes), "text")

    def _told(self, quote: Quote) -> str:
        return f"{flat(where(quote))}: {cut(flat(quote.text), _QUOTE)}"
