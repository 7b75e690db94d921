"""From printed failure texts to incidents: one per failure, its copies merged, what was survived told apart.

A failure may be printed by Python, again by a framework's logger, by pytest's summary, by the launcher's table and in
an error.json. Equal numbers on the same device within one stretch of the log are one failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oomph.evidence.model import Evidence, Failure, Kind, Position, Traceback

#: Words of programs that catch an OOM and say so before the message.
_CAUGHT = re.compile(
    r"caught|catch|retry|retrying|recover|skip|fall(?:ing)? ?back|attempting|reduc|halv|lower(?:ing)?|"
    r"Ran out of memory with exception|emptying cache|trying (?:again|with)",
    re.IGNORECASE,
)
_TABLE = re.compile(r"^\s{2,}\S")
#: So many progress lines between two equal messages make them two failures.
_WENT_ON = 3
_BARE = (Kind.DEVICE_OOM_BARE, Kind.NCCL_OOM, Kind.KILLED, Kind.SHM, Kind.DISGUISED, Kind.HOST_OOM)


@dataclass
class Group:
    """The prints of one failure, first print first."""

    prints: list[Failure] = field(default_factory=list)
    traceback: Traceback | None = None
    rank: int | None = None

    @property
    def lead(self) -> Failure:
        """The print with the most numbers; of equals the first."""
        return max(
            self.prints, key=lambda failure: (len(failure.numbers), failure.raised, not failure.truncated)
        )

    @property
    def start(self) -> Position:
        return self.prints[0].position

    @property
    def end(self) -> Position:
        return max(failure.end for failure in self.prints if failure.position.document == self.start.document)

    @property
    def announced_as_caught(self) -> bool:
        """True when the program that printed it says that it goes on."""
        if any(failure.raised for failure in self.prints):
            return False
        return any(_CAUGHT.search(_lead_in(failure)) for failure in self.prints)


def _lead_in(failure: Failure) -> str:
    text = failure.quote.text
    at = text.find("out of memory")
    return text[: at if at > 0 else 200]


def group(evidence: Evidence) -> list[Group]:
    """All failures as groups in input order, each with its traceback and rank where known."""
    groups: list[Group] = []
    for failure in evidence.failures:
        for known in reversed(groups):
            if _same(evidence, known, failure):
                known.prints.append(failure)
                break
        else:
            groups.append(Group([failure]))
    for one in groups:
        one.traceback = _traceback(evidence, one)
        one.rank = _rank(evidence, one)
    return groups


def _same(evidence: Evidence, known: Group, failure: Failure) -> bool:
    lead = known.lead
    if lead.rank is not None and failure.rank is not None and lead.rank != failure.rank:
        return False
    if lead.kind is Kind.DEVICE_OOM and failure.kind is Kind.DEVICE_OOM:
        if lead.device is not None and failure.device is not None and lead.device != failure.device:
            return False
        return _agree(lead, failure) and not _progress_between(evidence, known, failure)
    if lead.kind is not failure.kind:
        return _bare_copy(known, failure)
    if lead.format != failure.format and lead.kind is Kind.HOST_OOM:
        return _near(known, failure, 60)
    if lead.kind is Kind.KILLED:
        return _same_pid(lead, failure) or (lead.rank == failure.rank or None in (lead.rank, failure.rank))
    return lead.kind in _BARE and _near(known, failure, 400)


def _agree(a: Failure, b: Failure) -> bool:
    """True when every number that both print is equal, and there is one (a cut print has fewer)."""
    common = set(a.numbers) & set(b.numbers)
    if not common:
        return (
            (not a.numbers or not b.numbers)
            and a.position.document == b.position.document
            and (abs(a.position.line - b.position.line) <= 40 and a.stream == b.stream)
        )
    if len(common) < min(len(a.numbers), len(b.numbers)) and not (a.truncated or b.truncated):
        return False
    return all(a.numbers[name] == b.numbers[name] for name in common)


def _progress_between(evidence: Evidence, known: Group, failure: Failure) -> bool:
    """True when the job went on between the two prints: then they are two failures."""
    last = known.prints[-1]
    if last.position.document != failure.position.document:
        return False
    low, high = last.end.line, failure.position.line
    count = 0
    for fact in evidence.facts_in(failure.position.document, "progress"):
        if low < fact.position.line < high:
            count += 1
            if count >= _WENT_ON:
                return not _TABLE.match(evidence.documents[failure.position.document].lines[high].text)
    return False


def _bare_copy(known: Group, failure: Failure) -> bool:
    """An error without numbers next to one of the same kind of cause with numbers is its echo."""
    pair = {known.lead.kind, failure.kind}
    if pair <= {Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.DISGUISED}:
        return _near(known, failure, 12) and known.lead.stream == failure.stream
    return False


def _near(known: Group, failure: Failure, lines: int) -> bool:
    last = known.prints[-1]
    return (
        last.position.document == failure.position.document
        and abs(failure.position.line - last.position.line) <= lines
    )


def _same_pid(a: Failure, b: Failure) -> bool:
    return "pid" in a.detail and a.detail.get("pid") == b.detail.get("pid")


def _traceback(evidence: Evidence, one: Group) -> Traceback | None:
    """The traceback that ends in the failure; else the one right behind or before it that tells of it."""
    for failure in one.prints:
        inside = [
            traceback
            for traceback in evidence.tracebacks
            if traceback.stream == failure.stream
            and traceback.start.document == failure.position.document
            and traceback.start.line <= failure.position.line <= traceback.end.line
        ]
        if inside:
            return max(inside, key=lambda traceback: (bool(traceback.frames), len(traceback.frames)))
    lead = one.prints[0]
    for traceback in evidence.tracebacks:
        if traceback.stream != lead.stream or traceback.start.document != lead.position.document:
            continue
        if _tells_of(traceback, one) and 0 < traceback.start.line - lead.position.line <= 60:
            return traceback
        if _tells_of(traceback, one) and 0 < lead.position.line - traceback.end.line <= 6:
            return traceback
    if lead.kind in (Kind.NCCL_OOM, Kind.DEVICE_OOM_BARE):
        for traceback in evidence.tracebacks:
            if _tells_of(traceback, one) and traceback.start >= lead.position:
                return traceback
    return None


_TELLS = {
    Kind.NCCL_OOM: re.compile(r"NCCL|unhandled cuda error|ncclUnhandledCudaError|CUDA error", re.IGNORECASE),
    Kind.DEVICE_OOM_BARE: re.compile(r"out of memory", re.IGNORECASE),
    Kind.SHM: re.compile(r"[Bb]us error|shared memory"),
    Kind.KILLED: re.compile(r"killed by signal|exited unexpectedly"),
}


def _tells_of(traceback: Traceback, one: Group) -> bool:
    pattern = _TELLS.get(one.lead.kind)
    if pattern is not None:
        return pattern.search(traceback.message) is not None
    return "out of memory" in traceback.message and one.lead.kind is Kind.DEVICE_OOM and not one.lead.raised


def _rank(evidence: Evidence, one: Group) -> int | None:
    """The rank that a print names, else the traceback's writer, else the one whose pid the launcher names."""
    for failure in one.prints:
        if failure.rank is not None:
            return failure.rank
    if one.traceback is not None and one.traceback.rank is not None:
        return one.traceback.rank
    pids = {failure.detail["pid"] for failure in one.prints if "pid" in failure.detail}
    for found in evidence.exits:
        if found.rank is not None and found.pid is not None and str(found.pid) in pids:
            return found.rank
    return None
