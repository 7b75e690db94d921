"""From printed failure texts to incidents: one per failure, its copies merged, what was survived told apart.

A failure may be printed by Python, again by a framework's logger, by pytest's summary, by the launcher's table and in
an error.json. Equal numbers on the same device within one stretch of the log are one failure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from oomph.diagnose.lookup import Exits, Progress, Tracebacks
from oomph.evidence.model import Evidence, Failure, Kind, Position, Traceback

#: Words of programs that catch an OOM and say so before the message.
_CAUGHT = re.compile(
    r"caught|catch|retry|retrying|recover|skip|fall(?:ing)? ?back|attempting|reduc|halv|lower(?:ing)?|"
    r"Ran out of memory with exception|emptying cache|trying (?:again|with)|捕获|跳过|重试|Trial \d+ failed",
    re.IGNORECASE,
)
#: The same behind it.
_GOES_ON = re.compile(
    r"\b(?:retrying|skipping|reducing|halving|lowering|falling back|trying again|continuing)\b", re.IGNORECASE
)
_TABLE = re.compile(r"^\s{2,}\S")
#: So many progress lines between two equal messages make them two failures.
_WENT_ON = 3
_BARE = (Kind.DEVICE_OOM_BARE, Kind.NCCL_OOM, Kind.KILLED, Kind.SHM, Kind.DISGUISED, Kind.HOST_OOM)


#: So many of the last groups are compared with a print in every respect; older ones only with its equal.
_LOOK_BACK = 64


@dataclass
class Group:
    """The prints of one failure, first print first. Prints are only ever added at the end."""

    prints: list[Failure] = field(default_factory=list)
    traceback: Traceback | None = None
    rank: int | None = None
    _lead: Failure | None = field(default=None, repr=False)
    _judged: int = field(default=0, repr=False)

    @property
    def lead(self) -> Failure:
        """The print with the most numbers; of equals the first."""
        if self._judged < len(self.prints):  # each print is looked at once: there may be thousands
            new = self.prints[self._judged :]
            self._lead = max(new if self._lead is None else [self._lead, *new], key=_worth)
            self._judged = len(self.prints)
        assert self._lead is not None
        return self._lead

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
        return any(
            _CAUGHT.search(_lead_in(failure)) or _GOES_ON.search(failure.quote.text[-120:])
            for failure in self.prints
        )


def _worth(failure: Failure) -> tuple[int, bool, bool]:
    return len(failure.numbers), failure.raised, not failure.truncated


def _lead_in(failure: Failure) -> str:
    text = failure.quote.text
    at = text.find("out of memory")
    return text[: at if at > 0 else 200]


def group(evidence: Evidence) -> list[Group]:
    """All failures as groups in input order, each with its traceback and rank where known."""
    groups: list[Group] = []
    equals: dict[tuple[object, ...], Group] = {}
    for failure in evidence.failures:
        known = next(
            (one for one in _candidates(groups, equals, failure) if _same(evidence, one, failure)), None
        )
        if known is None:
            known = Group()
            groups.append(known)
        known.prints.append(failure)
        equals.update(dict.fromkeys(_names(failure), known))
    for one in groups:
        one.traceback = _traceback(evidence, one)
        one.rank = _rank(evidence, one)
    return groups


def _candidates(
    groups: list[Group], equals: dict[tuple[object, ...], Group], failure: Failure
) -> Iterator[Group]:
    """The groups that `failure` may belong to, latest first, then older ones with an equal print."""
    yield from islice(reversed(groups), _LOOK_BACK)
    if len(groups) > _LOOK_BACK:
        for name in _names(failure):
            if name in equals:
                yield equals[name]


def _names(failure: Failure) -> Iterator[tuple[object, ...]]:
    """Under which names an older group is found again: its figures (with and without the rank), or the pid."""
    if failure.kind is Kind.DEVICE_OOM and failure.numbers:
        figures = tuple(sorted(failure.numbers.items(), key=lambda item: item[0]))
        yield (failure.rank, *figures)
        yield ("any", *figures)
    elif failure.kind is Kind.KILLED:
        if "pid" in failure.detail:
            yield "pid", failure.detail["pid"]
        yield "killed", failure.rank


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
    document, low, high = failure.position.document, last.end.line, failure.position.line
    if evidence.derived(Progress).between(document, low, high) < _WENT_ON:
        return False
    return not _TABLE.match(evidence.documents[document].lines[high].text)


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
    tracebacks = evidence.derived(Tracebacks)
    for failure in one.prints:
        inside = tracebacks.around(failure.position, failure.stream)
        if inside:
            return max(inside, key=lambda traceback: (bool(traceback.frames), len(traceback.frames)))
    lead = one.prints[0]
    for traceback in tracebacks.near(lead.position, lead.stream, before=6, behind=60):
        if _tells_of(traceback, one):
            return traceback
    if lead.kind in (Kind.NCCL_OOM, Kind.DEVICE_OOM_BARE) or "/nccl-" in lead.quote.text:
        told = evidence.derived(_Telling).by_kind.get(one.lead.kind, [])
        at = bisect_left(told, lead.position, key=lambda traceback: traceback.start)
        return next((traceback for traceback in told[at : at + 1] if _tells_of(traceback, one)), None)
    return None


_REQUEST = re.compile(r"Tried to allocate (\d[\d.,]* ?\w+)")
_TELLS = {
    Kind.NCCL_OOM: re.compile(r"NCCL|unhandled cuda error|ncclUnhandledCudaError|CUDA error", re.IGNORECASE),
    Kind.DEVICE_OOM_BARE: re.compile(r"out of memory", re.IGNORECASE),
    Kind.SHM: re.compile(r"[Bb]us error|shared memory|NCCL error"),
    Kind.KILLED: re.compile(r"killed by signal|exited unexpectedly"),
}


class _Telling:
    """The tracebacks that tell of a kind of failure, in input order."""

    def __init__(self, evidence: Evidence) -> None:
        self.by_kind: dict[Kind, list[Traceback]] = {
            kind: [traceback for traceback in evidence.tracebacks if _tells_of_kind(traceback, kind)]
            for kind in (Kind.NCCL_OOM, Kind.DEVICE_OOM_BARE, Kind.DEVICE_OOM, Kind.SHM)
        }


def _tells_of_kind(traceback: Traceback, kind: Kind) -> bool:
    pattern = _TELLS.get(kind)
    if pattern is not None:
        return pattern.search(traceback.message) is not None
    return kind is Kind.DEVICE_OOM and "out of memory" in traceback.message


def _of_another(traceback: Traceback, one: Group) -> bool:
    """True when the traceback's own message prints a request, and another one."""
    theirs = _REQUEST.search(traceback.message)
    ours = _REQUEST.search(one.lead.quote.text)
    return theirs is not None and ours is not None and theirs[1] != ours[1]


def _tells_of(traceback: Traceback, one: Group) -> bool:
    if one.lead.kind is Kind.DEVICE_OOM and (one.lead.raised or _of_another(traceback, one)):
        return False
    return _tells_of_kind(traceback, one.lead.kind)


def _rank(evidence: Evidence, one: Group) -> int | None:
    """The rank that a print names, else the traceback's writer, else the one whose pid the launcher names."""
    for failure in one.prints:
        if failure.rank is not None:
            return failure.rank
    if one.traceback is not None and one.traceback.rank is not None:
        return one.traceback.rank
    spawned = _spawned(evidence, one)
    if spawned is not None:
        return spawned
    pids = {failure.detail["pid"] for failure in one.prints if "pid" in failure.detail}
    known = evidence.derived(Exits).ranks_by_pid
    return min((known[pid] for pid in pids if pid in known), default=(0, None))[1]


def _spawned(evidence: Evidence, one: Group) -> int | None:
    """The rank in the line "-- Process 3 terminated with the following error:" right above the traceback."""
    start = one.traceback.start if one.traceback is not None else one.start
    return evidence.derived(_SpawnLines).rank_above.get((start.document, start.line))


class _SpawnLines:
    """The places below which torch.multiprocessing.spawn prints a child's traceback, and the child's rank."""

    def __init__(self, evidence: Evidence) -> None:
        self.rank_above: dict[tuple[int, int], int] = {}
        for found in evidence.exits:
            if found.launcher == "spawn" and found.rank is not None:
                at = found.position
                for below in (1, 2, 3):
                    self.rank_above[at.document, at.line + below] = found.rank
