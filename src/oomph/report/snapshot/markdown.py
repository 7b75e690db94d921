"""The answer for an issue or a pull request: short, with the tables folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph import __version__
from oomph.diagnose.model import Step
from oomph.diagnose.snapshot.compare_model import SnapshotComparison
from oomph.diagnose.snapshot.model import DeviceReport, SnapshotReport
from oomph.report.bar import ledger_table
from oomph.report.clean import flat, without_commands
from oomph.report.markdown import escape, fence, table
from oomph.report.options import ReportOptions
from oomph.report.snapshot.text_alive import holder_row, pool_rows, pools_of_interest, share_rows
from oomph.report.snapshot.text_compare import (
    alike_words,
    category_rows,
    setting_lines,
    side_rows,
    signed,
    stack_rows,
)
from oomph.report.snapshot.text_diverge import TITLE, divergence_lines
from oomph.report.snapshot.text_failure import failure_rows
from oomph.report.snapshot.text_more import device_words, leak_rows, notes_of, trial_rows
from oomph.report.snapshot.view import SnapshotView, is_used, prepare, python_frames
from oomph.report.snapshot.words import (
    frame_line,
    headline,
    moment_title,
    moment_words,
    read_words,
    ruled_out,
    sentence,
)
from oomph.units import format_bytes

#: Stacks, retries and frames that are listed.
HOLDERS = 20
_RETRIES = 10
_FRAMES = 20
#: Wide enough that lines shared with the text report are not wrapped.
_UNWRAPPED = 100_000


def render_markdown(report: SnapshotReport, options: ReportOptions) -> str:
    """The whole answer for one snapshot, ending in a newline."""
    everything = bool(getattr(options, "everything", False))
    view = prepare(report, options, None if everything else HOLDERS, merged=not everything)
    return render_view(view, options)


def render_view(view: SnapshotView, options: ReportOptions) -> str:
    """The same for a view that was prepared already."""
    return pasted(_Page(view, options).blocks())


def pasted(blocks: Iterable[Sequence[str]]) -> str:
    """Blocks of lines, one blank line apart; no line may start a CI service's command."""
    return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Lines under a bold title; [] for none."""
    lines = list(lines)
    return [f"**{title}**", "", *lines] if lines else []


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that are shown when the reader opens them; [] for none."""
    return ["<details>", f"<summary>{escape(title)}</summary>", "", *lines, "", "</details>"] if lines else []


class _Page:
    def __init__(self, view: SnapshotView, options: ReportOptions) -> None:
        self.view = view
        self.report = view.report
        self.options = options

    def blocks(self) -> list[list[str]]:
        """The blocks of the page in their order."""
        blocks = [[f"### {escape(headline(self.view))}"]]
        device = self.view.device
        if device is not None and is_used(device):
            blocks += self._device(device)
        blocks += [self._findings(), self._ruled_out(), *self._advice()]
        if device is not None and is_used(device):
            blocks += self._folded(device)
        others = [f"- GPU {one.index}: {escape(device_words(one))}" for one in self.view.others]
        blocks += [
            section("Other devices", others),
            section("Notes", [f"- {escape(note)}" for note in notes_of(self.view)]),
            [f"{escape(read_words(self.report))} oomph {escape(__version__)}."],
        ]
        return blocks

    def _device(self, device: DeviceReport) -> list[list[str]]:
        blocks = [[escape(moment_words(device))] if moment_words(device) else []]
        failure = device.failure
        if failure is not None:
            rows = failure_rows(failure)
            lines = [escape(sentence(failure.says)), "", *table(("number", "size", "what it is"), rows)]
            blocks.append(section(f"Why: {failure.verdict} ({failure.certainty})", lines))
        shares = share_rows(device.shares)
        if shares:
            blocks.append(
                section(f"What was alive {moment_title(device.moment)}", table(shares[0], shares[1:]))
            )
        if device.growth is not None and (device.growth.leaks or device.growth.longest_step is not None):
            leaks = leak_rows(device.growth.leaks[:HOLDERS])
            lines = [escape(device.growth.says)]
            lines += ["", *table(leaks[0], leaks[1:])] if device.growth.leaks else []
            blocks.append(section("Growth", lines))
        if device.what_if is not None:
            trials = trial_rows(device.what_if)
            lines = [escape(device.what_if.says), "", *table(trials[0], trials[1:])]
            blocks.append(section("What if", lines))
        return blocks

    def _folded(self, device: DeviceReport) -> list[list[str]]:
        """The tables for those who want to look closer."""
        blocks = []
        ledger = ledger_table(device.ledger, self.options)
        if ledger:
            title = f"Memory of GPU {device.index} {moment_title(device.moment)}"
            blocks.append(folded(title, table(("memory", "size", "how it is known"), ledger)))
        if device.holders:
            heads = ("size", "blocks", "category", "phase", "allocated at")
            lines = table(heads, [holder_row(holder) for holder in device.holders])
            rest = self.view.holders_left_out
            if rest.stacks:
                lines += ["", escape(f"and {rest.stacks:,} more places with {format_bytes(rest.bytes)}")]
            blocks.append(folded("Where the most was allocated", lines))
        if device.failure is not None and device.failure.frames:
            frames = list(python_frames(device.failure.frames)) or list(device.failure.frames)
            told = [frame_line(frame) for frame in frames[:_FRAMES]]
            more = len(frames) - _FRAMES
            told += [f"and {more:,} more"] if more > 0 else []
            blocks.append(folded("Stack of the request", fence("\n".join(told), "text")))
        pools = pools_of_interest(device, everything=False)
        if len(pools) > 1:
            rows = pool_rows(pools)
            blocks.append(folded("Free lists of the allocator", table(rows[0], rows[1:])))
        retries = [f"- event {retry.position:,}: {escape(retry.says)}" for retry in device.retries[:_RETRIES]]
        more = len(device.retries) - _RETRIES
        retries += [f"- and {more:,} more"] if more > 0 else []
        blocks.append(folded("Cached memory given back to serve a request", retries))
        return blocks

    def _findings(self) -> list[str]:
        return section(
            "Findings",
            [
                f"{number}. **{escape(finding.code)} {escape(finding.name)}** ({finding.certainty}): "
                f"{escape(finding.says)}"
                for number, finding in enumerate(self.report.findings, 1)
            ],
        )

    def _ruled_out(self) -> list[str]:
        failure = None if self.view.device is None else self.view.device.failure
        every = (*(() if failure is None else failure.ruled_out), *self.report.ruled_out)
        told = ruled_out(every)
        return section("Ruled out", [f"- {escape(cause)}: {escape(why)}" for cause, why in told])

    def _advice(self) -> list[list[str]]:
        advice = self.report.advice
        if advice is None:
            return []
        then = [f"- {escape(outcome)}: {escape(follows)}" for outcome, follows in advice.first.outcomes]
        return [
            section("First change", self._step(advice.first)),
            section("Then", [*then, *(line for step in advice.then for line in self._listed(step))]),
            section("Do not", [f"- {escape(text)}" for text in advice.avoid]),
            section("Collect", [line for step in advice.collect for line in self._listed(step)]),
        ]

    def _step(self, step: Step) -> list[str]:
        lines = [f"{escape(step.title)}.  ", escape(step.text)] if step.text else [escape(step.title)]
        lines += ["", *fence(step.paste.strip("\n"))] if step.paste.strip() else []
        if step.frees_bytes is not None:
            lines += ["", escape(f"It frees about {format_bytes(step.frees_bytes)}, by the figures above.")]
        return lines

    def _listed(self, step: Step) -> list[str]:
        text = f": {escape(step.text)}" if step.text else ""
        lines = [f"- {escape(step.title.rstrip('.'))}{text}"]
        if step.paste.strip():
            lines += ["", *[f"  {line}" for line in fence(step.paste.strip("\n"))], ""]
        return lines


def render_comparison(comparison: SnapshotComparison, views: Sequence[SnapshotView]) -> str:
    """The comparison of snapshots, then each one's headline; ending in a newline."""
    sides = side_rows(comparison.sides)
    blocks = [[f"### {escape(comparison.says)}"], table(sides[0], sides[1:])]
    settings = [line.strip().removeprefix("- ") for line in setting_lines(comparison, _UNWRAPPED)]
    blocks.append(section("Settings that differ", [f"- {escape(line)}" for line in settings]))
    told = [line.strip() for line in divergence_lines(comparison, _UNWRAPPED)]
    blocks.append(section(TITLE, [f"{escape(line)}  " for line in told]))
    rows = category_rows(comparison)
    if rows:
        blocks.append(section("By category", table(rows[0], rows[1:])))
    if comparison.what == "two" and len(comparison.sides) > 1 and comparison.stacks:
        rows = stack_rows(comparison.stacks, *(flat(side.label) for side in comparison.sides[:2]))
        blocks.append(folded("By stack", table(rows[0], rows[1:])))
    for deviation in comparison.deviations:
        title = f"{flat(deviation.label)}: {signed(deviation.difference_bytes)}"
        rows = stack_rows(deviation.stacks, "middle", flat(deviation.label))
        told = [f"- {category}: {signed(size)}" for category, size in deviation.categories]
        blocks += [
            section(escape(title), told),
            folded("Its stacks", table(rows[0], rows[1:]) if rows[1:] else []),
        ]
    blocks += [
        [escape(alike_words(comparison))] if alike_words(comparison) else [],
        section("Notes", [f"- {escape(note)}" for note in comparison.notes]),
        section(
            "Each by itself",
            [f"- {escape(view.report.source)}: {escape(headline(view))}" for view in views],
        ),
    ]
    return pasted(blocks)
