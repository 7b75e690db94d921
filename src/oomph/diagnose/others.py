"""Errors that are not memory: said, not diagnosed."""

from __future__ import annotations

import re

from oomph.diagnose.model import Incident, PhaseVerdict
from oomph.diagnose.phases.verdict import phase_of
from oomph.evidence.model import Evidence, Quote, Traceback

_LAUNCHER = re.compile(
    r"ChildFailedError|CalledProcessError|SystemExit|ProcessRaisedException|ProcessExitedException"
)
_MEMORY = re.compile(r"out of memory|OutOfMemory", re.IGNORECASE)
#: So many are quoted; more say nothing new.
MOST = 6


def _others(evidence: Evidence) -> list[Traceback]:
    return [
        one
        for one in evidence.tracebacks
        if one.exception
        and not _LAUNCHER.search(one.exception)
        and not _MEMORY.search(one.exception + one.message)
    ]


def other_errors(evidence: Evidence, explained: Incident | None) -> tuple[Quote, ...]:
    """The exception lines of tracebacks that are not the explained failure's, first ones first."""
    quotes: list[Quote] = []
    seen: set[str] = set()
    for one in _others(evidence):
        if explained is not None and explained.traceback is one:
            continue
        document = evidence.documents[one.end.document]
        quote = document.quote(min(one.end.line, len(document.lines) - 1))
        key = re.sub(r"\d+", "#", quote.text)[:120]
        if key in seen or not quote.text:
            continue
        seen.add(key)
        quotes.append(quote)
        if len(quotes) >= MOST:
            break
    return tuple(quotes)


def other_phase(evidence: Evidence) -> PhaseVerdict | None:
    """The phase of the first error that ended a job without a memory failure, or None without one."""
    for one in _others(evidence):
        return phase_of(evidence, None, one, one.start)
    return None
