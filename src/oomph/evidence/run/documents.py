"""The records of one rank as a document: lines to quote, facts and figures with their places in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from oomph.evidence.model import Document, Fact, Line, MemorySample, Position
from oomph.evidence.run.data import Outcome, RankData, RunData
from oomph.evidence.run.facts import facts_of, shapes
from oomph.evidence.run.host import host_use
from oomph.evidence.run.model import (
    RANKS,
    End,
    Header,
    Note,
    OomRecord,
    PhaseRecord,
    Record,
    StepRecord,
    rank_name,
)
from oomph.evidence.run.rank import line_key
from oomph.units import Amount, format_bytes

#: So many steps, and so many phases at the end, become lines; figures over a run are a trend, not a transcript.
_STEPS, _PHASES, _NOTES = 120, 24, 40
_LONGEST = 2_000


@dataclass
class RankDocument:
    """A document of records, and where in it its failed requests and its end stand."""

    document: Document
    facts: list[Fact] = field(default_factory=list)
    samples: list[MemorySample] = field(default_factory=list)
    ooms: list[tuple[OomRecord, Position]] = field(default_factory=list)
    end: Position | None = None


def document_of(run: RunData, rank: RankData, index: int) -> RankDocument:
    """The document number `index`, of a rank."""
    name = f"{RANKS}/{rank_name(rank.rank)}.jsonl"
    kept = sorted(_chosen(rank), key=lambda record: record.clock)
    document = Document(
        source=f"{run.path.rstrip('/')}/{name}",
        lines=[],
        index=index,
        size_bytes=run.files.size(name) or 0,
        rank=rank.rank,
    )
    made = RankDocument(document)
    for record in kept:
        _add(made, rank, record, rank.lines.get(line_key(record), 1))
    _end(made, run, rank)
    _facts(made, run, rank)
    return made


def _chosen(rank: RankData) -> Iterator[Record]:
    """Of very many records those that tell how it went, and all of the end. Of earlier attempts only the failures:
    their clocks may be another boot's."""
    since = rank.header.clock if rank.header is not None else float("-inf")
    yield from rank.headers[-1:]
    steps = [one for one in rank.steps if one.clock >= since]
    stride = max(1, len(steps) // _STEPS)
    yield from steps[::stride]
    if steps and (len(steps) - 1) % stride:
        yield steps[-1]
    yield from [one for one in rank.phases if one.clock >= since][-_PHASES:]
    yield from [one for one in rank.notes if one.clock >= since][-_NOTES:]
    yield from [one for one in rank.ooms if one.clock >= since]
    if rank.end is not None:
        yield rank.end


def _add(made: RankDocument, rank: RankData, record: Record, number: int) -> None:
    document = made.document
    position = Position(document.index, len(document.lines))
    text = " ".join(_text(record).split())[:_LONGEST]
    document.lines.append(Line(text, number, f"rank{rank.rank}", rank.rank, record.time))
    if isinstance(record, OomRecord):
        made.ooms.append((record, position))
    elif isinstance(record, StepRecord):
        quote = document.quote(position.line)
        counters = record.counters
        made.facts.append(Fact("progress", str(record.step), position, quote, rank.rank))
        for what, size in (
            ("allocated", counters.allocated_bytes),
            ("max_allocated", counters.peak_allocated_bytes),
            ("reserved", counters.reserved_bytes),
            ("max_reserved", counters.peak_reserved_bytes),
        ):
            if size > 0:
                made.samples.append(
                    MemorySample(
                        what,
                        Amount(size),
                        position,
                        quote,
                        step=record.step,
                        rank=rank.rank,
                        time=record.time,
                        printer="oomph",
                        context="train",
                    )
                )


def _end(made: RankDocument, run: RunData, rank: RankData) -> None:
    """The end of the records: a line for what a rank without a last record was doing, and the host's memory then."""
    document = made.document
    number = document.lines[-1].number if document.lines else 1
    use = host_use(run, rank) if rank.outcome in (Outcome.KILLED, Outcome.UNKNOWN) else None
    if use is not None:
        position = Position(document.index, len(document.lines))
        document.lines.append(
            Line(f"host memory when it was last read: {use.says}", number, "", rank.rank, use.time)
        )
        made.samples.append(
            MemorySample(
                "host_used",
                Amount(use.used_bytes),
                position,
                document.quote(position.line),
                rank=rank.rank,
                total=Amount(use.limit_bytes),
                time=use.time,
                printer="oomph",
            )
        )
    made.end = Position(document.index, len(document.lines))
    text = f"the records end here: {rank.outcome}; {rank.why or 'in order'}"
    if rank.doing is not None:
        text += f"; {rank.doing.phase} of step {rank.doing.step} ({rank.doing.why})"
    document.lines.append(
        Line(" ".join(text.split())[:_LONGEST], number, f"rank{rank.rank}", rank.rank, rank.last_time)
    )


def _facts(made: RankDocument, run: RunData, rank: RankData) -> None:
    position = Position(made.document.index, 0)
    quote = made.document.quote(0)
    for name, value in facts_of(run, rank):
        made.facts.append(Fact(name, value, position, quote, rank.rank))
    pids = {one.pid for one in rank.headers}
    made.facts += [Fact("rank_pid", str(pid), position, quote, rank.rank) for pid in sorted(pids)]


def _text(record: Record) -> str:
    if isinstance(record, Header):
        device = f", {record.device}" if record.device else ""
        of = f" of {format_bytes(record.capacity_bytes)}" if record.capacity_bytes else ""
        return (
            f"rank {record.rank} of {record.world_size}: process {record.pid} on {record.host}{device}{of}"
            + "".join(f"; {limit}" for limit in record.limits)
        )
    if isinstance(record, PhaseRecord):
        peak = format_bytes(max(record.counters.peak_allocated_bytes, record.counters.allocated_bytes))
        text = f"{record.phase} of step {record.step} ended: at most {peak} allocated"
        text += f", {format_bytes(record.counters.reserved_bytes)} reserved at its end"
        if record.batch:
            text += f"; batch {shapes(record.batch)}"
        return f"{text}; ended by {record.raised}" if record.raised else text
    if isinstance(record, StepRecord):
        counters = record.counters
        return (
            f"step {record.step} completed: {format_bytes(counters.allocated_bytes)} allocated, "
            f"{format_bytes(counters.reserved_bytes)} reserved"
        )
    if isinstance(record, OomRecord):
        text = f"a request failed in {record.phase} of step {record.step}: {record.message}"
        return f"{text}; batch {shapes(record.batch)}" if record.batch else text
    if isinstance(record, Note):
        return record.text
    return _end_text(record)


def _end_text(record: End) -> str:
    return f"ended: {record.outcome}" + (f": {record.error}" if record.error else "")


def error_words(error: str) -> str:
    """The kind of an exception, without what differs from rank to rank (addresses, ports)."""
    name = error.split("\n", 1)[0].split(":", 1)[0].strip()
    return name if name and len(name) <= 80 and " " not in name else "an error"
