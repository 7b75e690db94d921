"""The answer for people who have a dead job: what failed, why, what was alive, and what to change first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.model import Finding, RuledOut
from oomph.diagnose.snapshot.model import DeviceReport, SnapshotReport
from oomph.report.bar import contradictions, render_bar
from oomph.report.clean import flat, without_commands
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.text_alive import alive_lines, pool_lines
from oomph.report.snapshot.text_failure import failure_lines, pin_lines, retry_lines, stack_lines
from oomph.report.snapshot.text_more import device_lines, growth_lines, note_lines, step_lines, what_if_lines
from oomph.report.snapshot.view import SnapshotView, is_used, prepare
from oomph.report.snapshot.words import headline, moment_title, moment_words, read_words, ruled_out
from oomph.report.text_advice import advice_sections
from oomph.units import format_bytes

#: Stacks that are listed without `everything`.
HOLDERS = 6

_MANY_BLANK_LINES = re.compile(r"\n{3,}")

#: A section: its heading ("" for none) and its lines.
Section = tuple[str, list[str]]


def render_text(report: SnapshotReport, options: ReportOptions) -> str:
    """The whole answer for one snapshot, ending in a newline."""
    everything, stacks = (bool(getattr(options, name, False)) for name in ("everything", "stacks"))
    view = prepare(report, options, None if everything else HOLDERS, merged=not (everything or stacks))
    return render_view(view, options)


def render_view(view: SnapshotView, options: ReportOptions) -> str:
    """The same for a view that was prepared already."""
    return SnapshotText(view, options).render()


def put_together(sections: Sequence[Section], width: int, style: Style) -> str:
    """Sections that have lines, with their headings, one blank line apart; ending in a newline."""
    blocks = []
    for heading, lines in sections:
        if lines:
            title = [style(line, "heading") for line in wrap(heading, width)]
            blocks.append("\n".join(line.rstrip() for line in [*title, *lines]).strip("\n"))
    return without_commands(_MANY_BLANK_LINES.sub("\n\n", "\n\n".join(blocks))) + "\n"


class SnapshotText:
    """The sections of the text report of one snapshot."""

    def __init__(self, view: SnapshotView, options: ReportOptions) -> None:
        self.view = view
        self.report = view.report
        self.options = options
        self.style = Style(options.colour)
        self.width = options.columns
        self.everything = bool(getattr(options, "everything", False))
        self.stacks = bool(getattr(options, "stacks", False))

    def render(self) -> str:
        """The whole text."""
        sections: list[Section] = [("", self._headline())]
        if self.view.device is not None and is_used(self.view.device):
            sections += self._device(self.view.device)
        sections.append(("Findings", self._findings(self.report.findings)))
        if self.report.advice is not None:
            sections += advice_sections(self.report.advice, self.width, self.style)
        sections += [
            ("Other devices", device_lines(self.view, self.width)),
            ("Notes", note_lines(self.view, self.width)),
            ("", [self.style(line, "dim") for line in wrap(read_words(self.report), self.width)]),
        ]
        return put_together(sections, self.width, self.style)

    def _headline(self) -> list[str]:
        failed = self.report.exit_code != 0
        lines = [
            self.style(line, "bad" if failed else "good") for line in wrap(headline(self.view), self.width)
        ]
        device = self.view.device
        return lines if device is None else [*lines, *wrap(moment_words(device), self.width)]

    def _device(self, device: DeviceReport) -> list[Section]:
        failure = device.failure
        sections = [self._memory(device)]
        if failure is not None:
            sections += [
                (f"Why: {failure.verdict} ({failure.certainty})", failure_lines(device, failure, self.width)),
                ("What kept the free memory apart", pin_lines(failure, self.width)),
                ("Ruled out", self._ruled_out()),
                (
                    "The request came from",
                    stack_lines(failure.frames, self.width, whole=self.everything or self.stacks),
                ),
            ]
        else:
            sections.append(("Ruled out", self._ruled_out()))
        sections += [
            (
                "What was alive",
                alive_lines(self.view, device, self.options, stacks=self.stacks or self.everything),
            ),
            ("Free lists of the allocator", pool_lines(device, self.width, everything=self.everything)),
            ("Cached memory given back to serve a request", retry_lines(device, self.options)),
            ("Steps", step_lines(device, self.width) if self.everything else []),
            ("Growth", growth_lines(device, self.width, everything=self.everything)),
            ("What if", what_if_lines(device, self.width, self.style)),
        ]
        return sections

    def _memory(self, device: DeviceReport) -> Section:
        lines = render_bar(device.ledger, self.options)
        doubts = contradictions(device.ledger, self.options, device.notes)
        lines += ["", *doubts] if doubts else []
        capacity = device.ledger.capacity_bytes
        total = "" if capacity is None else f" ({format_bytes(capacity)})"
        return f"Memory of GPU {device.index}{total} {moment_title(device.moment)}", lines

    def _findings(self, findings: Sequence[Finding]) -> list[str]:
        lines: list[str] = []
        for number, finding in enumerate(findings, 1):
            label, certainty = f"{finding.code} {flat(finding.name)}", f"({finding.certainty})"
            title = wrap(f"{label} {certainty}", self.width, f"  {number}. ")
            lines += [line.replace(label, self.style(label, "bold"), 1) for line in title]
            lines += wrap(self._not_again(flat(finding.says)), self.width, "     ")
        return lines

    def _not_again(self, says: str) -> str:
        """A finding's sentences without those that stand under Why."""
        failure = None if self.view.device is None else self.view.device.failure
        if failure is None or not failure.says.endswith("."):
            return says
        return says.replace(f": {flat(failure.says)}", " (see Why).")

    def _ruled_out(self) -> list[str]:
        failure = None if self.view.device is None else self.view.device.failure
        every: tuple[RuledOut, ...] = (
            *(() if failure is None else failure.ruled_out),
            *self.report.ruled_out,
        )
        told = ruled_out(every)
        return [line for cause, why in told for line in wrap(f"{cause}: {why}", self.width, "  - ")]
