"""Who else sends SIGKILL: preemption, time limits, cancelled jobs, evictions, as the log itself names them."""

from __future__ import annotations

import re

from oomph.evidence.model import Evidence, Position, Quote

_OTHER_SENDER = re.compile(
    r"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|\bscancel\b|\b[Pp]reempt(?:ed|ion)\b|\bEvicted\b|DeadlineExceeded|"
    r"[Ss]pot (?:instance |node )?(?:interruption|termination|reclaim)"
)
#: Slurm also writes this about a step of which a task was killed: it names a sender only where it comes first.
_CANCELLED = re.compile(r"\*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,80} CANCELLED")


def other_sender(evidence: Evidence, killed: Position) -> Quote | None:
    """The first line of the input that names another reason for a SIGKILL than a lack of host memory."""
    named = evidence.derived(_Named)
    if named.quote is None and named.cancelled is not None:
        at, quote = named.cancelled
        return quote if at < killed else None
    return named.quote


class _Named:
    """The first line that names a sender, and the first that says that the job was cancelled."""

    def __init__(self, evidence: Evidence) -> None:
        self.quote: Quote | None = None
        self.cancelled: tuple[Position, Quote] | None = None
        for document in evidence.documents:
            for index, line in enumerate(document.lines):
                if _OTHER_SENDER.search(line.text):
                    self.quote = document.quote(index)
                    return
                if self.cancelled is None and "CANCELLED" in line.text and _CANCELLED.search(line.text):
                    self.cancelled = (Position(document.index, index), document.quote(index))
