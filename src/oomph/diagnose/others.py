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
#: What a rank writes that gave up waiting for the others.
WATCHDOG = re.compile(r"Watchdog caught collective operation timeout|collective operation timeout")
#: So many are quoted; more say nothing new.
MOST = 6


def others(evidence: Evidence) -> list[Traceback]:
    """The tracebacks that are neither a launcher's report of a dead child nor a memory failure."""
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
    for one in others(evidence):
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
    if explained is None and not quotes:
        quotes = _watchdog(evidence)
    return tuple(quotes)


def _watchdog(evidence: Evidence) -> list[Quote]:
    for document in evidence.documents:
        for index, line in enumerate(document.lines):
            if "timeout" in line.text and WATCHDOG.search(line.text):
                return [document.quote(index)]
    return []


def other_phase(evidence: Evidence) -> PhaseVerdict | None:
    """The phase of the first error that ended a job without a memory failure, or None without one."""
    for one in others(evidence):
        return phase_of(evidence, None, one, one.start)
    return None
