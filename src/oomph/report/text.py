"""The answer for people: plain text that reads well in a terminal and in a CI log."""

from __future__ import annotations

import re

from oomph.diagnose.model import Diagnosis, Incident, Outcome
from oomph.evidence.model import Kind
from oomph.report.bar import contradictions, render_bar
from oomph.report.citations import Citations
from oomph.report.clean import cut, flat, without_commands
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.planned import HEADING, planned_lines
from oomph.report.text_advice import advice_sections
from oomph.report.text_lists import incident_table, job_lines, process_words, rank_lines
from oomph.report.view import View, prepare
from oomph.report.words import (
    HOST_KINDS,
    Places,
    device_words,
    frame_words,
    headline,
    no_finding,
    plural,
    read_so_far,
    says_frame,
    segment_words,
    where,
)
from oomph.units import format_bytes

#: Incidents that a report lists without --all.
_LISTED = 10
#: Reasons why incidents are fatal or caught, below the list of them.
_REASONS = 5
#: Errors of another kind that a report mentions.
_OTHER_ERRORS = 5
#: Characters of a quote that the text report prints.
_QUOTE = 600

_MANY_BLANK_LINES = re.compile(r"\n{3,}")

#: A section: its heading ("" for none) and its lines.
Section = tuple[str, list[str]]


def render_text(diagnosis: Diagnosis, options: ReportOptions) -> str:
    """The whole report, ending in a newline."""
    return _Report(prepare(diagnosis, options), options).render()


class _Report:
    def __init__(self, view: View, options: ReportOptions) -> None:
        self.view = view
        self.diagnosis = view.diagnosis
        self.options = options
        self.style = Style(options.colour)
        self.width = options.columns
        self.citations = Citations(shown=options.explain_evidence)

    def render(self) -> str:
        recovered = self.diagnosis.outcome is Outcome.RECOVERED
        incidents = ("Incidents", self._incidents())
        sections: list[Section] = [("", self._headline())]
        if recovered:
            sections.append(incidents)
        if self.diagnosis.outcome is Outcome.NO_OOM:
            sections.append(("What looks like one", self._look_alike()))
        if self.diagnosis.outcome is not Outcome.NO_OOM or self.view.incident is not None:
            sections += self._failure_sections()
        if not recovered:
            sections.append(incidents)
        sections += [
            ("Other errors in the input, not of memory", self._other_errors()),
            ("Notes", self._notes()),
            ("Evidence", self._evidence()),
        ]
        if self.diagnosis.outcome is not Outcome.NO_OOM and self.view.sources:
            sections.append(("", [self.style(f"Read {read_so_far(self.view)}.", "dim")]))
        blocks = []
        for heading, lines in sections:
            if lines:
                title = [self.style(line, "heading") for line in wrap(heading, self.width)]
                blocks.append("\n".join(line.rstrip() for line in [*title, *lines]).strip("\n"))
        return without_commands(_MANY_BLANK_LINES.sub("\n\n", "\n\n".join(blocks))) + "\n"

    def _failure_sections(self) -> list[Section]:
        sections = [self._memory()]
        if self.view.is_explained or self.view.incident is None:
            sections += [("Why", self._why()), ("Ruled out", self._ruled_out())]
        sections += [
            ("Phase", self._phase()),
            ("Ranks", rank_lines(self.diagnosis, self.width)),
        ]
        if self.view.is_explained and self.diagnosis.advice is not None:
            sections += advice_sections(self.diagnosis.advice, self.width, self.style)
            planned = planned_lines(self.diagnosis.plan, self.width, self.citations)
            sections.append((HEADING, planned))
        sections.append(
            ("Job, as far as the input says", job_lines(self.diagnosis.job, self.width, self.citations))
        )
        return sections

    # -- sections in the order of the report ----------------------------------------------------------------------

    def _headline(self) -> list[str]:
        failed = self.diagnosis.outcome is Outcome.FAILED
        lines = [
            self.style(line, "bad" if failed else "good") for line in wrap(headline(self.view), self.width)
        ]
        if self.diagnosis.outcome is Outcome.RECOVERED:
            lines += wrap("The job went on after that: it did not end for lack of memory.", self.width)
        rank = self.options.rank
        if rank is not None and self.diagnosis.outcome is not Outcome.NO_OOM:
            lines += wrap(self._rank_remark(rank), self.width)
        return lines

    def _rank_remark(self, rank: int) -> str:
        explained = self.diagnosis.incident
        of = "another failure" if explained is None or explained.rank is None else f"rank {explained.rank}"
        if not self.view.incidents:
            reason = self.diagnosis.ranks.consequences.get(rank)
            ended = f" ({flat(reason)})" if reason else ""
            return f"Rank {rank} has no memory failure of its own{ended}. What follows is about {of}."
        if self.view.is_explained:
            return f"Shown is rank {rank} only."
        return f"Shown is rank {rank} only. The cause and the first change are those of {of}: see the full report."

    def _look_alike(self) -> list[str]:
        """An error that people take for a lack of memory."""
        incident = self.view.incident
        if incident is None:
            return []
        quote = incident.failure.quote
        lines = wrap(where(quote) + self.citations.mark([quote]), self.width, "  ")
        return lines + wrap(cut(flat(quote.text), _QUOTE), self.width, "  | ", "  | ")

    def _memory(self) -> Section:
        incident = self.view.incident
        if incident is None or incident.failure.kind is Kind.NOT_MEMORY:
            return "", []
        ledger = incident.ledger
        on_host = incident.failure.kind in HOST_KINDS
        name = "the host" if on_host else (device_words(incident) or "the device")
        total = "" if ledger.capacity_bytes is None else f" ({format_bytes(ledger.capacity_bytes)})"
        lines = render_bar(ledger, self.options)
        if not lines:
            return "", wrap("The failure printed no numbers: how the memory was used is unknown.", self.width)
        meaning = segment_words(incident, rounded_up=self.view.sizes_rounded_up)
        lines += wrap(meaning, self.width, "  ")
        lines += wrap(process_words(incident), self.width, "  ")
        doubts = contradictions(ledger, self.options, self.diagnosis.notes)
        lines += ["", *doubts] if doubts else []
        mark = self.citations.mark([incident.failure.quote])
        when = "as printed" if ledger.problems else "when the request failed"
        return f"Memory of {name}{total} {when}{self._number(incident)}{mark}", lines

    def _number(self, incident: Incident) -> str:
        """The incident's number where the report lists several."""
        if len(self.view.incidents) < 2 or not self._lists_incidents or incident not in self.view.incidents:
            return ""
        return f", incident {self.view.incidents.index(incident) + 1}"

    @property
    def _lists_incidents(self) -> bool:
        return self.options.all_incidents or self.diagnosis.outcome is Outcome.RECOVERED

    def _why(self) -> list[str]:
        findings = self.diagnosis.findings
        if not findings and self.diagnosis.outcome is Outcome.FAILED:
            return wrap(no_finding(self.view), self.width, "  ")
        lines: list[str] = []
        for number, finding in enumerate(findings, 1):
            colour = {"certain": "bad", "likely": "yellow"}.get(str(finding.certainty), "dim")
            label, certainty = f"{finding.code} {flat(finding.name)}", f"({finding.certainty})"
            title = wrap(f"{label} {certainty}", self.width, f"  {number}. ")
            lines += [self._coloured(line, label, certainty, colour) for line in title]
            says = flat(finding.says) + self.citations.mark(finding.evidence)
            lines += wrap(says, self.width, "     ")
        return lines

    def _coloured(self, line: str, label: str, certainty: str, colour: str) -> str:
        """A finding's line with its label bold and its certainty in colour, as far as they stand on it whole."""
        for text, name in ((certainty, colour), (label, "bold")):
            if line.endswith(text) or text == label:
                line = line.replace(text, self.style(text, name), 1)
        return line

    def _ruled_out(self) -> list[str]:
        return [
            line
            for ruled in self.diagnosis.ruled_out
            for line in wrap(f"{flat(ruled.cause)}: {flat(ruled.why)}", self.width, "  - ")
        ]

    def _phase(self) -> list[str]:
        verdict = self.view.phase
        if verdict is None:
            return []
        mark = self.citations.mark([verdict.quote])
        recompute = ", in a checkpoint's recompute" if verdict.recompute else ""
        lines = wrap(f"{verdict.phase}{recompute}: {flat(verdict.why)}{mark}", self.width, "  ")
        if verdict.frame is not None:
            if not says_frame(verdict):
                lines += wrap(f"decided by {frame_words(verdict.frame)}", self.width, "  ")
            lines += wrap(cut(flat(verdict.frame.code), _QUOTE), self.width, "  | ", "  | ")
        if verdict.first_step is not None:
            said = (
                "no optimizer step had been finished"
                if verdict.first_step
                else "optimizer steps had been finished"
            )
            lines += wrap(f"before it, {said}", self.width, "  ")
        return lines

    def _incidents(self) -> list[str]:
        incidents = self.view.incidents
        if not self._lists_incidents:
            return wrap(self._count_by_status(), self.width, "  ") if len(incidents) > 1 else []
        listed = incidents if self.options.all_incidents else incidents[:_LISTED]
        lines = incident_table(listed, self.width, self.citations, self._places()) if listed else []
        if len(listed) < len(incidents):
            lines += wrap(f"and {len(incidents) - len(listed):,} more; --all lists them", self.width, "  ")
        reasons = dict.fromkeys((one.status, flat(one.why_status)) for one in listed if one.why_status)
        for status, reason in list(reasons)[:_REASONS]:
            lines += wrap(f"{status}: {reason}", self.width, "  - ")
        return lines

    def _places(self) -> Places:
        return Places(source.name for source in self.view.sources)

    def _count_by_status(self) -> str:
        counts: dict[str, int] = {}
        for incident in self.view.incidents:
            counts[incident.status] = counts.get(incident.status, 0) + 1
        told = ", ".join(f"{count:,} {flat(status)}" for status, count in counts.items())
        return f"{plural(len(self.view.incidents), 'memory failure')} in the input ({told}); --all lists them"

    def _other_errors(self) -> list[str]:
        lines: list[str] = []
        for quote in self.diagnosis.other_errors[:_OTHER_ERRORS]:
            lines += wrap(where(quote) + self.citations.mark([quote]), self.width, "  ")
            lines += wrap(cut(flat(quote.text), _QUOTE), self.width, "  | ", "  | ")
        more = len(self.diagnosis.other_errors) - _OTHER_ERRORS
        return [*lines, f"  and {more:,} more"] if more > 0 else lines

    def _notes(self) -> list[str]:
        notes = [*self.diagnosis.notes, *self.diagnosis.evidence.notes]
        notes += [f"{source.name}: {note}" for source in self.view.sources for note in source.notes]
        return [line for note in dict.fromkeys(notes) for line in wrap(flat(note), self.width, "  - ")]

    def _evidence(self) -> list[str]:
        if not self.options.explain_evidence:
            return []
        lines: list[str] = []
        for number, quote in enumerate(self.citations.quotes, 1):
            lines += wrap(where(quote), self.width, f"  [{number}] ")
            lines += wrap(cut(flat(quote.text), _QUOTE), self.width, "      | ", "      | ")
        return lines
