"""The part of a snapshot's report that renderers show: cleaned, redacted if asked for, and no longer than needed.

A snapshot is a file that anybody may have written: no string of it reaches an output by another road than this one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.diagnose.model import Finding, Step
from oomph.diagnose.snapshot.compare_model import SettingRow, Side, SnapshotComparison
from oomph.diagnose.snapshot.exact import pattern_of, shared_label
from oomph.diagnose.snapshot.model import DeviceReport, Holder, Moment, SnapshotReport, Trial
from oomph.diagnose.snapshot.places import is_python
from oomph.diagnose.trace.model import TraceReport, Unruled
from oomph.evidence.model import Quote
from oomph.memory.ledger import Ledger, Problem
from oomph.memory.stacks import Frame
from oomph.report.clean import clean
from oomph.report.options import ReportOptions
from oomph.report.snapshot.places import holder_place, is_users
from oomph.report.view import ShownText, head, new_redactor, strings

if TYPE_CHECKING:
    from oomph.report.redact import Redactor

#: Fields that hold oomph's own keys, or settings of PyTorch's that it knows.
_OWN_KEYS = {
    Finding: frozenset(("code", "actions")),
    Moment: frozenset(("kind",)),
    Problem: frozenset(("code",)),
    Ledger: frozenset(("origins", "slack_bytes")),
    SettingRow: frozenset(("name",)),
    Side: frozenset(("moment",)),
    SnapshotComparison: frozenset(("what", "noun")),
    SnapshotReport: frozenset(("era",)),
    Step: frozenset(("code",)),
    TraceReport: frozenset(("gpu", "torch", "installed_torch")),
    Trial: frozenset(("setting",)),
    Unruled: frozenset(("operator",)),
}


@dataclass(frozen=True)
class LeftOut:
    """Holders that a report does not list: how many stacks (or places), and their blocks and bytes."""

    stacks: int = 0
    blocks: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class SnapshotView:
    """What a renderer works on. `left_out` has an entry for each of the report's devices."""

    report: SnapshotReport
    left_out: tuple[LeftOut, ...]

    @property
    def device(self) -> DeviceReport | None:
        """The device to look at first; None when the snapshot has none."""
        devices = self.report.devices
        if not devices:
            return None
        return devices[self.report.shown if 0 <= self.report.shown < len(devices) else 0]

    @property
    def others(self) -> tuple[DeviceReport, ...]:
        """The other devices that were used."""
        return tuple(one for one in self.report.devices if one is not self.device and is_used(one))

    @property
    def holders_left_out(self) -> LeftOut:
        """Of the device shown."""
        for device, left_out in zip(self.report.devices, self.left_out, strict=True):
            if device is self.device:
                return left_out
        return LeftOut()


def is_used(device: DeviceReport) -> bool:
    """Whether anything is known of a device: a snapshot lists all that PyTorch can see."""
    return bool(device.events or device.pools or device.holders or device.peak_reserved_bytes)


def prepare(
    report: SnapshotReport, options: ReportOptions, holders: int | None = None, *, merged: bool = False
) -> SnapshotView:
    """The view of one report. `holders` is how many stacks are listed for each device; None is all. With `merged`,
    stacks that lead to one place are one holder."""
    return prepare_all([report], options, holders, merged=merged)[0]


def prepare_all(
    reports: Sequence[SnapshotReport],
    options: ReportOptions,
    holders: int | None = None,
    *,
    merged: bool = False,
) -> list[SnapshotView]:
    """The views of several reports, in which the same private name has the same placeholder."""
    return prepare_compared(reports, None, options, holders, merged=merged)[0]


def prepare_compared(
    reports: Sequence[SnapshotReport],
    comparison: SnapshotComparison | None,
    options: ReportOptions,
    holders: int | None = None,
    *,
    merged: bool = False,
) -> tuple[list[SnapshotView], SnapshotComparison | None]:
    """The same, with what was found by comparing them."""
    shortened = [reduced(report, holders, merged=merged) for report in reports]
    names = [report.source for report in reports]
    text = shown_text(options, names, ([one for one, _ in shortened], comparison))
    views = [SnapshotView(text.apply(one), left_out) for one, left_out in shortened]
    return views, text.apply(comparison)


def shown_text(options: ReportOptions, inputs: Iterable[str], values: object) -> ShownText:
    """What makes text of a snapshot harmless; with `redact` it knows the `inputs` and the names in `values`."""
    text = SnapshotText(new_redactor(options), _use)
    if text.redactor is not None:
        text.redactor.learn_inputs(clean(name) for name in inputs)
        for string in dict.fromkeys(strings(values)):
            text.redactor.learn(head(clean(string)))
    return text


class SnapshotText(ShownText):
    """Stacks share most of their frames: each frame is treated once."""

    def __init__(self, redactor: Redactor | None, use: Callable[[object, str], str]) -> None:
        super().__init__(redactor, use)
        self._frames: dict[Frame, Frame] = {}

    def walk(self, value: object, use: str) -> object:
        """As for any value; a frame that was seen before is taken from there."""
        if type(value) is not Frame:
            return super().walk(value, use)
        known = self._frames.get(value)
        if known is None:
            known = Frame(
                str(super().walk(value.function, "text")), str(super().walk(value.file, "path")), value.line
            )
            if is_users(known) and not is_users(value):
                # Redaction took away what shows that it is a library's.
                known = dataclasses.replace(known, file=f"/site-packages/{known.file}")
            self._frames[value] = known
        return known


def _use(owner: object, field: str) -> str:
    if (type(owner), field) in (
        (SnapshotReport, "source"),
        (Side, "source"),
        (Frame, "file"),
        (Quote, "source"),
    ):
        return "path"
    return "own" if field in _OWN_KEYS.get(type(owner), ()) else "text"


def reduced(
    report: SnapshotReport, holders: int | None, *, merged: bool
) -> tuple[SnapshotReport, tuple[LeftOut, ...]]:
    """The report with at most `holders` stacks a device, and what was left out of each."""
    devices = []
    left_out = []
    for device in report.devices:
        every = merge(device.holders) if merged else device.holders
        rest = () if holders is None else every[holders:]
        left_out.append(LeftOut(len(rest), sum(one.blocks for one in rest), sum(one.bytes for one in rest)))
        kept = every if holders is None else every[:holders]
        devices.append(dataclasses.replace(device, holders=kept, ledger=_recorded(device.ledger)))
    return dataclasses.replace(report, devices=tuple(devices)), tuple(left_out)


def merge(holders: Sequence[Holder]) -> tuple[Holder, ...]:
    """One holder for each place, category and phase, the largest first. Many stacks lead to one line: those of a
    layer's sixty copies differ in nothing else. What is not a sum is that of the largest."""
    groups: dict[tuple[object, ...], list[Holder]] = {}
    for holder in sorted(holders, key=lambda one: -one.bytes):
        place = holder.place or pattern_of(holder.label) or holder_place(holder)
        groups.setdefault((place, holder.category, holder.phase), []).append(holder)
    result = []
    for same in groups.values():
        steps = [step for one in same for step in (one.first_step, one.last_step) if step is not None]
        one = dataclasses.replace(
            same[0],
            bytes=sum(each.bytes for each in same),
            blocks=sum(each.blocks for each in same),
            largest_bytes=max(each.largest_bytes for each in same),
            first_step=min(steps, default=None),
            last_step=max(steps, default=None),
            label=shared_label(each.label for each in same),
        )
        result.append(one)
    return tuple(sorted(result, key=lambda each: -each.bytes))


def _recorded(ledger: Ledger) -> Ledger:
    """In a snapshot nothing is printed. (Where numbers contradict each other, "printed" is what reports go by.)"""
    if ledger.problems or "printed" not in ledger.origins.values():
        return ledger
    origins = {name: "recorded" if origin == "printed" else origin for name, origin in ledger.origins.items()}
    return dataclasses.replace(ledger, origins=origins)


def python_frames(frames: Iterable[Frame]) -> Iterator[Frame]:
    """The frames that stand in Python code."""
    return (frame for frame in frames if is_python(frame))
