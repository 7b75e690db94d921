"""What oomph says about a synthetic snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.build import report_of
from oomph.diagnose.snapshot.model import DeviceReport, Failure, SnapshotReport
from oomph.evidence.snapshot import from_bytes
from tests.snapshots.written import Made


def answer(
    made: Made,
    era: str = "2.13",
    *,
    last: int | None = None,
    capacity_bytes: int | None = None,
    what_if: Sequence[str] = (),
) -> SnapshotReport:
    snapshot = from_bytes(made.pickled(era, last), "synthetic.pickle")
    return report_of(snapshot, capacity_bytes=capacity_bytes, what_if=what_if)


def device_of(report: SnapshotReport, index: int = 0) -> DeviceReport:
    return next(one for one in report.devices if one.index == index)


def failure_of(made: Made, era: str = "2.13", *, last: int | None = None) -> Failure:
    """The failure that the report explains."""
    report = answer(made, era, last=last)
    failure = report.devices[report.shown].failure
    assert failure is not None
    return failure
