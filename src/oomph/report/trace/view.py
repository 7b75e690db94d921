"""The part of a trace's report that renderers show: cleaned, redacted if asked for, and no longer than needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.diagnose.trace.model import TraceReport
from oomph.report.options import ReportOptions
from oomph.report.snapshot.view import SnapshotView, reduced, shown_text


@dataclass(frozen=True)
class TraceView:
    """What a renderer works on: the report, and the view of its snapshot."""

    report: TraceReport
    snapshot: SnapshotView


def prepare(
    reports: Sequence[TraceReport],
    options: ReportOptions,
    holders: int | None = None,
    *,
    merged: bool = False,
) -> list[TraceView]:
    """The views of the traced ranks of one job, in which the same private name has the same placeholder. `holders` is
    how many stacks are listed for each device (None: all); with `merged`, those that lead to one place are one."""
    shortened = []
    for report in reports:
        snapshot, left_out = reduced(report.snapshot, holders, merged=merged)
        shortened.append((dataclasses.replace(report, snapshot=snapshot), left_out))
    names = [report.snapshot.source for report in reports]
    text = shown_text(options, names, [report for report, _ in shortened])
    views = []
    for report, left_out in shortened:
        shown = text.apply(report)
        views.append(TraceView(shown, SnapshotView(shown.snapshot, left_out)))
    return views
