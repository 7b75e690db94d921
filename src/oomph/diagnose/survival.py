"""Did the job live on after a failure, and if not, which failure ended it.

Progress after a failure counts only when it is the same writer's and goes beyond the step that had been reached
(progress bars are redrawn when a process dies; other ranks print for a while).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.incidents import Group
from oomph.diagnose.prose import talked_about
from oomph.evidence.model import Evidence, Fact, Kind

#: So many lines of new progress prove that a job went on.
ENOUGH_STEPS = 3
#: In a log in which several ranks write without prefixes, other ranks' lines may follow for a while.
ENOUGH_STEPS_SHARED = 25

DEVICE_KINDS = frozenset(
    {Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.DISGUISED, Kind.NCCL_OOM, Kind.MANAGED_OOM, Kind.UNIFIED_OOM}
)
_LAUNCHER = re.compile(r"ChildFailedError|CalledProcessError|SystemExit|ProcessRaisedException")
_ASSERT = re.compile(r"device-side assert|Assertion `|CUDA_ERROR_ASSERT|illegal memory access")


def status_of(evidence: Evidence, one: Group, groups: Sequence[Group]) -> tuple[str, str]:
    """("fatal" | "caught" | "consequence" | "dropped", why), the reason as one sentence."""
    lead = one.lead
    if lead.kind is Kind.DISGUISED and _assert_before(evidence, one):
        return "dropped", "a device-side assert came before it: the context was already broken"
    talked = talked_about(evidence, one)
    if talked:
        return "dropped", talked
    lives, why = lives_on(evidence, one)
    if lives:
        if lead.kind is Kind.NCCL_OOM:
            return "dropped", f"NCCL warned that an allocation failed, and training went on: {why}"
        return "caught", why
    if one.announced_as_caught:
        return "caught", "the program says that it caught it; the input does not show what came after"
    if lead.kind is Kind.KILLED:
        first = _earlier_cause(one, groups)
        if first is not None:
            return (
                "consequence",
                f"the process was killed after another failure (line {first.lead.quote.line})",
            )
    if lead.kind is Kind.SHM or lead.kind is Kind.HOST_OOM:
        return "fatal", "the error names host memory"
    return "fatal", "nothing after it shows that the job went on"


def lives_on(evidence: Evidence, one: Group) -> tuple[bool, str]:
    """(True, how it is known) when the writer of `one` made progress after it or ended well."""
    end = one.end
    shared = not one.lead.stream and _several_writers(evidence, end.document)
    reached = _step_before(evidence, one)
    count = 0
    last: Fact | None = None
    for fact in evidence.facts_in(end.document, "success"):
        if fact.position.line > end.line and not _fails_after(evidence, fact):
            return True, f"the job ended well afterwards (line {fact.quote.line}: {fact.quote.text[:80]})"
    for fact in evidence.facts_in(end.document, "progress"):
        if fact.position.line > end.line and _same_writer(evidence, one, fact) and _beyond(fact, reached):
            count += 1
            last = fact
    if last is not None and _blamed_later(evidence, one, last):
        return False, ""
    if last is not None and count >= (ENOUGH_STEPS_SHARED if shared else ENOUGH_STEPS):
        return True, f"{count} more training steps follow (to line {last.quote.line}: {last.quote.text[:80]})"
    return False, ""


def _beyond(fact: Fact, reached: int | None) -> bool:
    if not fact.value.isdigit() or reached is None:
        return True
    return int(fact.value) > reached


def _step_before(evidence: Evidence, one: Group) -> int | None:
    steps = [
        int(fact.value)
        for fact in evidence.facts_in(one.start.document, "progress")
        if fact.value.isdigit() and fact.position.line <= one.start.line
    ]
    return max(steps) if steps else None


def _same_writer(evidence: Evidence, one: Group, fact: Fact) -> bool:
    line = evidence.documents[fact.position.document].lines[fact.position.line]
    if one.lead.stream and line.stream and line.stream != one.lead.stream:
        return False
    return one.rank is None or line.rank is None or line.rank == one.rank


def _several_writers(evidence: Evidence, document: int) -> bool:
    """True when the input says that several ranks write into this file."""
    world = evidence.fact("world_size")
    if world is not None and world.value.isdigit() and int(world.value) > 1:
        return True
    ranks = {fact.rank for fact in evidence.facts_in(document, "progress") if fact.rank is not None}
    return len(ranks) > 1


def _fails_after(evidence: Evidence, success: Fact) -> bool:
    """True when a process is said to have failed behind the line that claims success."""
    return any(
        found.position.document == success.position.document
        and found.position.line > success.position.line
        and found.code not in (0, None)
        for found in evidence.exits
    )


def _blamed_later(evidence: Evidence, one: Group, last: Fact) -> bool:
    """True when a launcher says, behind the last sign of life, that this writer failed, and no other error explains it.

    Progress lines behind a raised error prove nothing then: logs are buffered, and ranks share files.
    """
    if one.announced_as_caught:
        return False
    end = one.end
    blamed = any(
        found.position.document == end.document
        and found.position.line > last.position.line
        and found.code not in (0, None, -15)
        and found.killer != "launcher"
        and (found.rank is None or one.rank is None or found.rank == one.rank)
        for found in evidence.exits
    )
    if not blamed:
        return False
    return not any(
        traceback.stream == one.lead.stream
        and traceback.start.document == end.document
        and traceback.start.line > end.line
        and traceback.exception
        and not _LAUNCHER.search(traceback.exception)
        for traceback in evidence.tracebacks
    )


def _earlier_cause(one: Group, groups: Sequence[Group]) -> Group | None:
    for other in groups:
        if other is one or other.announced_as_caught:
            continue
        if other.lead.kind in DEVICE_KINDS or other.lead.kind is Kind.HOST_OOM:
            return other
    return None


def _assert_before(evidence: Evidence, one: Group) -> bool:
    document = evidence.documents[one.start.document]
    return any(
        _ASSERT.search(line.text) for line in document.lines[: one.start.line + 1] if "ss" in line.text
    )
