"""Did the job live on after a failure, and if not, which failure ended it.

Progress after a failure counts only when it is the same writer's and goes beyond the step that had been reached
(progress bars are redrawn when a process dies; other ranks print for a while).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from oomph.diagnose.attempts import ran_later
from oomph.diagnose.incidents import Group
from oomph.diagnose.lookup import Exits, Progress, Tracebacks, line_of, step_of
from oomph.diagnose.prose import talked_about
from oomph.diagnose.senders import other_sender
from oomph.evidence.model import Evidence, Fact, Kind

#: So many lines of new progress prove that a job went on.
ENOUGH_STEPS = 3
#: In a log in which several ranks write without prefixes, other ranks' lines may follow for a while.
ENOUGH_STEPS_SHARED = 25

DEVICE_KINDS = frozenset(
    {Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.DISGUISED, Kind.NCCL_OOM, Kind.MANAGED_OOM, Kind.UNIFIED_OOM}
)
#: The buffer of a C or Python stream that is a file.
_BLOCK = 8192
_ASSERT = re.compile(r"device-side assert|Assertion `|CUDA_ERROR_ASSERT|illegal memory access")


#: Progress lines are looked at for every failure: so many in all, and so many for each at least.
_LOOKS, _LEAST_LOOKS = 500_000, 200


def status_of(evidence: Evidence, one: Group, cause: Group | None) -> tuple[str, str]:
    """("fatal" | "caught" | "consequence" | "dropped", why), the reason as one sentence. `cause` is what
    `first_cause` says about all groups."""
    lead = one.lead
    if lead.format == "snapshot":
        if "caught" in lead.detail:
            return "caught", "the events after it show that the job went on"
        return "fatal", "nothing was allocated after it that shows that the job went on"
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
    later = ran_later(evidence, one.start.document)
    if later:
        return "caught", later
    if one.announced_as_caught:
        return "caught", "the program says that it caught it; the input does not show what came after"
    if lead.kind is Kind.KILLED:
        if cause is not None:
            return (
                "consequence",
                f"the process was killed after another failure (line {cause.lead.quote.line})",
            )
        sender = None if _host_memory_known(evidence) else other_sender(evidence, one.start)
        if sender is not None:
            return "dropped", f"SIGKILL, and the log names who sent it: {sender.text[:100]}"
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
    # Success counts only where no process is said to have failed behind it.
    success = evidence.facts_in(end.document, "success")
    at = _behind(success, max(end.line, evidence.derived(Exits).last_failed(end.document) - 1))
    if at < len(success):
        fact = success[at]
        return True, f"the job ended well afterwards (line {fact.quote.line}: {fact.quote.text[:80]})"
    progress = evidence.facts_in(end.document, "progress")
    at = _behind(progress, end.line)
    looks = max(_LEAST_LOOKS, _LOOKS // len(evidence.failures))
    cut = len(progress) - at > 2 * looks
    for fact in (*progress[at : at + looks], *progress[-looks:]) if cut else progress[at:]:
        if _same_writer(evidence, one, fact) and _beyond(fact, reached):
            count += 1
            last = fact
    if last is not None and (_blamed_later(evidence, one, last) or _buffered(evidence, one)):
        return False, ""
    if last is not None and count >= (ENOUGH_STEPS_SHARED if shared else ENOUGH_STEPS):
        where = f"(to line {last.quote.line}: {last.quote.text[:80]})"
        return True, f"{'at least ' if cut else ''}{count} more training steps follow {where}"
    return False, ""


def _behind(facts: Sequence[Fact], line: int) -> int:
    """The index of the first of `facts` (of one document) behind `line`."""
    return bisect_right(facts, line, key=line_of)


def _beyond(fact: Fact, reached: int | None) -> bool:
    number = step_of(fact)
    return number is None or reached is None or number > reached


def _step_before(evidence: Evidence, one: Group) -> int | None:
    _, highest = evidence.derived(Progress).before(one.start, None)
    return highest if highest >= 0 else None


def _same_writer(evidence: Evidence, one: Group, fact: Fact) -> bool:
    line = evidence.documents[fact.position.document].lines[fact.position.line]
    if one.lead.stream and line.stream and line.stream != one.lead.stream:
        return False
    return one.rank is None or line.rank is None or line.rank == one.rank


def _several_writers(evidence: Evidence, document: int) -> bool:
    """True when the input says that several ranks write into this file."""
    world = evidence.fact("world_size")
    if world is not None and world.value.isdecimal() and int(world.value) > 1:
        return True
    return evidence.derived(Progress).several_ranks(document)


def _blamed_later(evidence: Evidence, one: Group, last: Fact) -> bool:
    """True when a launcher says, behind the last sign of life, that this writer failed, and no other error explains it.

    Progress lines behind a raised error prove nothing then: logs are buffered, and ranks share files.
    """
    if one.announced_as_caught:
        return False
    end = one.end
    if evidence.derived(Exits).last_blamed(end.document, one.rank) <= last.position.line:
        return False
    return evidence.derived(Tracebacks).last_error(end.document, one.lead.stream) <= end.line


def first_cause(groups: Sequence[Group]) -> Group | None:
    """The first failure that may be why other processes were killed."""
    kinds = DEVICE_KINDS | {Kind.HOST_OOM}
    return next((one for one in groups if one.lead.kind in kinds and not one.announced_as_caught), None)


class _Asserts:
    """The first line of each document that tells of a broken context."""

    def __init__(self, evidence: Evidence) -> None:
        self.first: dict[int, int] = {}
        for number in {failure.position.document for failure in evidence.failures}:
            lines = evidence.documents[number].lines
            found = (at for at, line in enumerate(lines) if "ss" in line.text and _ASSERT.search(line.text))
            self.first[number] = next(found, len(lines))


def _assert_before(evidence: Evidence, one: Group) -> bool:
    return evidence.derived(_Asserts).first[one.start.document] <= one.start.line


def _host_memory_known(evidence: Evidence) -> bool:
    """Figures of host memory decide more than words about other senders: the rule weighs both."""
    return evidence.fact("host_memory_percent") is not None or any(
        sample.what == "host_used" for sample in evidence.samples
    )


def _buffered(evidence: Evidence, one: Group) -> bool:
    """True when steps behind an uncaught error may be output that the process still held when it died.

    A traceback that begins at `<module>` is Python's own, printed on the way out; stdout, when it is a file, is
    written in blocks of 8 KiB, the last of them at the exit, behind the traceback on stderr. So where nothing but
    steps follows, and they fit into one block, they prove nothing. A restart prints more than steps.
    """
    traceback = one.traceback
    if traceback is None or not traceback.frames or traceback.frames[0].function != "<module>":
        return False
    if one.announced_as_caught or not any(failure.raised for failure in one.prints):
        return False
    lines = evidence.documents[one.end.document].lines
    written = size = 0
    for index in range(one.end.line + 1, len(lines)):
        if lines[index].text.strip():
            written += 1
            size += len(lines[index].text) + 1
        if size > _BLOCK or index > one.end.line + _BLOCK:
            return False
    progress = evidence.facts_in(one.end.document, "progress")
    steps = len(progress) - _behind(progress, one.end.line)
    return steps >= written
