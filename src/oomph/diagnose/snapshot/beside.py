"""The memory snapshots that lie beside a job's logs."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.build import report_of
from oomph.diagnose.snapshot.model import SnapshotReport
from oomph.errors import OomphError
from oomph.evidence.model import SnapshotFile
from oomph.evidence.snapshot import read
from oomph.units import GIB, format_bytes

#: Of snapshots that were found in a directory so much is read, smallest first: one of 500 MB takes some ten seconds.
MOST_BYTES = 4 * GIB


def reports_of(files: Sequence[SnapshotFile]) -> tuple[list[SnapshotReport], list[str]]:
    """The reports of those that can be read, and a sentence about each other one."""
    reports: list[SnapshotReport] = []
    notes: list[str] = []
    left = MOST_BYTES
    order = sorted(files, key=lambda file: (not file.explicit, file.size_bytes))
    skipped = 0
    for file in order:
        if not file.explicit:
            if file.size_bytes > left:
                skipped += 1
                continue
            left -= file.size_bytes
        try:
            reports.append(report_of(read(file.path), size_bytes=file.size_bytes))
        except OomphError as error:
            notes.append(str(error))
    if skipped:
        notes.append(
            f"{skipped} memory snapshots were not read (those in a directory are read up to "
            f"{format_bytes(MOST_BYTES)} in all): name them to have them read"
        )
    return sorted(reports, key=lambda report: report.source), notes
