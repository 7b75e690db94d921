"""Records of runs, joined to what the same jobs printed.

A failed request that is printed and recorded is one failure: the print has the words and the traceback, the record
the exact sizes and the phase. One that only the records have becomes a failure of its own, whose document the records
are; so does the end of a rank that was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oomph.diagnose.recorded.gpus import readings_of
from oomph.diagnose.recorded.model import Recorded, Records
from oomph.evidence.lines import build_document
from oomph.evidence.messages import parse as parse_messages
from oomph.evidence.model import (
    Document,
    Evidence,
    Fact,
    Failure,
    GpuProcess,
    GpuReading,
    Kind,
    MemorySample,
    Position,
)
from oomph.evidence.run.data import Outcome, RankData, RunData
from oomph.evidence.run.documents import RankDocument, document_of
from oomph.evidence.run.model import OomRecord
from oomph.units import Amount

#: So many ranks' records are put into lines; of the others only what they are summed up to is told.
MOST_RANKS = 48
#: How launchers write that a process ended by SIGKILL.
_SIGKILL = (-9, 137)
#: So many failed requests of a rank are told apart.
_MOST_OOMS = 50


@dataclass
class _Parts:
    """What the records add to the evidence."""

    documents: list[Document] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    samples: list[MemorySample] = field(default_factory=list)
    gpus: list[GpuReading] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)
    known: dict[Position, Recorded] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)


def join(evidence: Evidence, runs: Sequence[RunData]) -> tuple[Evidence, Records]:
    """The evidence with what the records add, and the records by failure."""
    parts = _Parts()
    first = len(evidence.documents)
    for number, run in enumerate(runs):
        for rank in _told(run):
            made = document_of(run, rank, first + len(parts.documents))
            _take(parts, evidence, run, rank, made)
            parts.places[number, rank.rank] = made.document.index
        seen = readings_of(run, first + len(parts.documents))
        if seen is not None:
            parts.documents.append(seen.document)
            parts.gpus += seen.gpus
            parts.processes += seen.processes
            parts.facts += seen.facts
    notes = [f"{run.path}: {note}" for run in runs for note in run.notes]
    joined = Evidence(
        documents=(*evidence.documents, *parts.documents),
        failures=(*evidence.failures, *parts.failures),
        tracebacks=evidence.tracebacks,
        samples=(*evidence.samples, *parts.samples),
        gpus=(*evidence.gpus, *parts.gpus),
        gpu_processes=(*evidence.gpu_processes, *parts.processes),
        tables=evidence.tables,
        exits=evidence.exits,
        facts=(*parts.facts, *evidence.facts),
        notes=(*evidence.notes, *notes),
        snapshots=evidence.snapshots,
    )
    return joined, Records(tuple(runs), parts.known, parts.places)


def _told(run: RunData) -> list[RankData]:
    """The ranks whose records become a document: who failed first, then the others that failed, then the rest."""
    first = run.first_failure.ranks if run.first_failure is not None else ()
    order = sorted(
        run.ranks.values(),
        key=lambda one: (one.rank not in first, not (one.ooms or one.outcome.failed), one.rank),
    )
    return sorted(order[:MOST_RANKS], key=lambda one: one.rank)


def _take(parts: _Parts, evidence: Evidence, run: RunData, rank: RankData, made: RankDocument) -> None:
    parts.documents.append(made.document)
    parts.facts += made.facts
    parts.samples += made.samples
    for oom, position in made.ooms[-_MOST_OOMS:]:
        recorded = Recorded(run, rank, made.document.index, oom)
        printed = _printed(evidence, oom, rank, parts.known)
        if printed:
            parts.known.update(dict.fromkeys(printed, recorded))
        else:
            failure = _failure(oom, rank, made.document, position)
            parts.failures.append(failure)
            parts.known[failure.position] = recorded
    told = {id(oom) for oom, _ in made.ooms}
    for oom in [one for one in rank.ooms if id(one) not in told][-_MOST_OOMS:]:
        # Of an earlier attempt: where it is printed, the rank went on.
        printed = _printed(evidence, oom, rank, parts.known)
        parts.known.update(dict.fromkeys(printed, Recorded(run, rank, made.document.index, oom)))
    if rank.outcome is Outcome.KILLED and made.end is not None and _is_own_end(evidence, run, rank):
        recorded = Recorded(run, rank, made.document.index)
        mine = [
            one.position for one in evidence.failures if one.kind is Kind.KILLED and one.rank == rank.rank
        ]
        killed = _killed(rank, made.document, made.end, _how(evidence, run, rank))
        parts.failures.append(killed)
        parts.known.update(dict.fromkeys([*mine, killed.position], recorded))


def _is_own_end(evidence: Evidence, run: RunData, rank: RankData) -> bool:
    """Whether a rank that left no last record is among those that failed first; the others were taken along.

    A launcher stops the others with SIGTERM, of which a process leaves no last record either: where it says whom a
    SIGKILL hit, nobody else counts.
    """
    if run.first_failure is None or rank.rank not in run.first_failure.ranks:
        return False
    hit = [one for one in evidence.exits if one.code in _SIGKILL and one.killer != "launcher"]
    pids = {one.pid for one in rank.headers}
    named = [one for one in hit if one.rank is not None or one.pid is not None]
    return not named or any(one.rank == rank.rank or one.pid in pids for one in named)


def _printed(evidence: Evidence, oom: OomRecord, rank: RankData, taken: Iterable[Position]) -> list[Position]:
    """The positions at which a recorded failure is printed."""
    asked = _as_printed(oom)
    taken = set(taken)
    found: list[Position] = []
    for one in evidence.failures:
        if one.position in taken or (one.rank is not None and one.rank != rank.rank):
            continue
        if asked is not None and asked.numbers and one.kind is asked.kind and one.numbers:
            common = asked.numbers.keys() & one.numbers.keys()
            same = bool(common) and all(asked.numbers[name] == one.numbers[name] for name in common)
        else:
            first = oom.message.strip().split("\n", 1)[0][:200]
            same = bool(first) and first in one.quote.text
        if same:
            found.append(one.position)
    ranked = [one for one in evidence.failures if one.position in found and one.rank == rank.rank]
    return [one.position for one in ranked] or found


def _as_printed(oom: OomRecord) -> Failure | None:
    """What the exception's own message says."""
    failures = parse_messages(build_document("", [(1, oom.message[:20_000])])) if oom.message else []
    return failures[0] if failures else None


def _failure(oom: OomRecord, rank: RankData, document: Document, position: Position) -> Failure:
    """A failed request that nothing printed. Its sizes are exact."""
    counters = oom.counters
    header = rank.header
    capacity = counters.total_bytes or (header.capacity_bytes if header is not None else None)
    sizes = {
        "requested_bytes": oom.request_bytes,
        "capacity_bytes": capacity,
        "free_bytes": counters.free_bytes,
        "allocated_bytes": counters.allocated_bytes,
        "reserved_bytes": counters.reserved_bytes,
    }
    told = _as_printed(oom)
    return Failure(
        format="recorded",
        kind=told.kind if told is not None and told.kind is not Kind.NOT_MEMORY else Kind.DEVICE_OOM,
        vendor=told.vendor if told is not None and told.vendor else "cuda",
        position=position,
        end=position,
        quote=document.quote(position.line),
        numbers={name: Amount(size) for name, size in sizes.items() if size is not None and size >= 0},
        processes=told.processes if told is not None else (),
        device=header.device_index if header is not None else None,
        rank=rank.rank,
        stream=f"rank{rank.rank}",
        raised=True,
        detail=dict(told.detail) if told is not None else {},
    )


def _how(evidence: Evidence, run: RunData, rank: RankData) -> str:
    """What is known of how a rank ended that left no last record: "" for a SIGKILL that somebody reported, else words.

    SIGKILL leaves none, but neither do SIGTERM, os._exit and a crash in C.
    """
    pids = {one.pid for one in rank.headers}
    if any(one.code in _SIGKILL and (one.rank == rank.rank or one.pid in pids) for one in evidence.exits):
        return ""
    if any(one.kind is Kind.KILLED and one.rank in (None, rank.rank) for one in evidence.failures):
        return ""
    if run.end is None or len(run.ranks) != 1:
        return "its records stop, and its process is gone"
    if run.end.signal == 9 or run.end.exit_code in _SIGKILL:
        return ""
    if run.end.signal is not None or run.end.exit_code > 128:
        return f"signal {run.end.signal or run.end.exit_code - 128} ended its command"
    return f"its command ended with exit code {run.end.exit_code}"


def _killed(rank: RankData, document: Document, position: Position, how: str) -> Failure:
    """The end of a rank that wrote no last record, and whose process is gone."""
    detail = {"who": f"process (rank {rank.rank})"}
    if how:
        detail["no_last_record"] = how
    if rank.header is not None:
        detail["pid"] = str(rank.header.pid)
    return Failure(
        format="recorded",
        kind=Kind.KILLED,
        vendor="",
        position=position,
        end=position,
        quote=document.quote(position.line),
        rank=rank.rank,
        stream=f"rank{rank.rank}",
        detail=detail,
    )
