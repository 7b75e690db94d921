"""What a renderer of snapshots may be asked for, beyond what every report can be."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.report.options import ReportOptions


@dataclass(frozen=True)
class SnapshotOptions(ReportOptions):
    """`everything` lists all stacks, pools and retries; `stacks` prints the call stacks of those shown. With both, each
    stack is whole."""

    everything: bool = False
    stacks: bool = False
