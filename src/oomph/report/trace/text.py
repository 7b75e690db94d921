"""The answer for people who want to know before they run: does it fit, which phase needs the most, which lines."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.model import DeviceReport
from oomph.diagnose.trace.model import DeviceTrace, TraceReport
from oomph.report.layout import wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.text import HOLDERS, Section, SnapshotText, put_together
from oomph.report.snapshot.text_alive import alive_lines
from oomph.report.snapshot.text_more import device_lines
from oomph.report.snapshot.words import moment_title, moment_words
from oomph.report.text_advice import advice_sections
from oomph.report.trace import words
from oomph.report.trace.view import TraceView, prepare
from oomph.report.trace.wire import Largest

#: Modules, operators and sentences that are listed without `everything`.
_PARTS, _SENTENCES = 5, 5
#: Columns that the numbers in front of a module take.
_NUMBERS = 38
#: Sections of a snapshot's report that a trace tells in its own way.
_OWN = ("What was alive", "Free lists of the allocator", "Steps")


def render_text(
    reports: Sequence[TraceReport], options: ReportOptions, largest: Largest | None = None
) -> str:
    """The answer for the traced ranks of one job, ending in a newline: of several, a table and the fullest one.
    `largest` is what `--largest` found."""
    everything, stacks = (bool(getattr(options, name, False)) for name in ("everything", "stacks"))
    views = prepare(reports, options, None if everything else HOLDERS, merged=not (everything or stacks))
    return TraceText(fullest(views), options, views if len(views) > 1 else (), largest).render()


def fullest(views: Sequence[TraceView]) -> TraceView:
    """The rank to look at: one that does not fit, else the one that needs the most; the first of several."""

    def rank(view: TraceView) -> tuple[bool, int]:
        peaks = [device.prediction.peak.most_bytes for device in view.report.devices]
        return view.report.fits is False, max(peaks, default=0)

    return max(views, key=rank)


class TraceText(SnapshotText):
    """The sections of the text report of a trace; what a snapshot's report says too, it says in the same words."""

    def __init__(
        self,
        view: TraceView,
        options: ReportOptions,
        ranks: Sequence[TraceView] = (),
        largest: Largest | None = None,
    ) -> None:
        super().__init__(view.snapshot, options)
        self.trace = view.report
        self.ranks = ranks
        self.largest = largest

    def render(self) -> str:
        """The whole text."""
        device, report = self.trace.shown, self.view.device
        sections: list[Section] = [("", self._headline())]
        if self.largest is not None:
            sections.insert(0, ("", wrap(words.largest_words(self.largest), self.width)))
        if self.ranks:
            rows = words.rank_rows([view.report for view in self.ranks])
            sections.append(("All ranks", aligned(rows, self.width, "rrrrrll")))
        if device is not None and report is not None:
            sections += self._first(device, report)
            left_out = _OWN if report.failure is not None else (*_OWN, "Memory of GPU")
            sections += [one for one in self._device(report) if not one[0].startswith(left_out)]
        sections.append(("Findings", self._findings(self.report.findings)))
        if self.report.advice is not None:
            sections += advice_sections(self.report.advice, self.width, self.style)
        sections += [
            ("Other devices", device_lines(self.view, self.width)),
            ("What this rests on", self._rests_on(device)),
            ("", [self.style(line, "dim") for line in wrap(words.context(self.trace), self.width)]),
        ]
        return put_together(sections, self.width, self.style)

    def _headline(self) -> list[str]:
        look = {0: "good", 1: "bad", 2: "bad"}[self.trace.exit_code]
        lines = [self.style(line, look) for line in wrap(words.headline(self.trace), self.width)]
        if self.ranks:
            lines += wrap(
                f"That is rank {self.trace.rank}, of {len(self.ranks)} that were traced.", self.width
            )
        return lines

    def _first(self, device: DeviceTrace, report: DeviceReport) -> list[Section]:
        """What stands on the first screen: the peaks of phases, and what is alive at the moment."""
        most = None if self.everything else _PARTS
        count = len(device.activations) + len(device.temporaries) if most is None else most
        rows = words.phase_table(device)
        room = max(20, self.width - _NUMBERS)
        title = f"What was alive on GPU {device.index} {moment_title(report.moment)}"
        alive = [
            *wrap(moment_words(report), self.width, "  "),
            "",
            *alive_lines(self.view, report, self.options, stacks=self.stacks or self.everything),
        ]
        modules = words.part_rows(device.activations, count, "module", alive=True, room=room)
        operators = words.part_rows(device.temporaries, count, "operator", alive=False, room=room)
        return [
            ("Peaks", aligned(rows, self.width, "lrrlrl")),
            (title, alive if report.events else []),
            ("Activations by module", aligned(modules, self.width, "rrrl")),
            ("Largest temporaries by operator", aligned(operators, self.width, "rrrl")),
            ("First and later steps", aligned(words.step_rows(device), self.width, "rrrl")),
        ]

    def _rests_on(self, device: DeviceTrace | None) -> list[str]:
        told = words.rests_on(self.trace, device, None if self.everything else _SENTENCES)
        told += self.view.device.notes if self.view.device is not None else ()
        return [line for sentence in told for line in wrap(sentence, self.width, "  - ")]
