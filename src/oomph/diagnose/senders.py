"""Who else sends SIGKILL: preemption, time limits, cancelled jobs, evictions, as the log itself names them."""

from __future__ import annotations

import re

from oomph.evidence.model import Evidence, Quote

_OTHER_SENDER = re.compile(
    r"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|\*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,80} CANCELLED|\bscancel\b|"
    r"\b[Pp]reempt(?:ed|ion)\b|\bEvicted\b|DeadlineExceeded|"
    r"[Ss]pot (?:instance |node )?(?:interruption|termination|reclaim)"
)


def other_sender(evidence: Evidence) -> Quote | None:
    """The first line of the input that names another reason for a SIGKILL than a lack of host memory."""
    return evidence.derived(_Named).quote


class _Named:
    def __init__(self, evidence: Evidence) -> None:
        self.quote: Quote | None = None
        for document in evidence.documents:
            for index, line in enumerate(document.lines):
                if _OTHER_SENDER.search(line.text):
                    self.quote = document.quote(index)
                    return
