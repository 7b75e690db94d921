"""The JSON document of `explain`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes; a size as printed has `slack_bytes`, half of its last printed digit. Field docs become the schema's
descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = "1"

Certainty = Literal["certain", "likely", "possible"]
Phase = Literal["init", "load", "forward", "backward", "optimizer", "eval", "generate", "save", "unknown"]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base: no fields but those that are named."""


class Quote(Strict):
    """Where a fact was read: the file as the user named it ("-" is standard input), the line from 1, its text."""

    source: str
    line: int
    text: str


class Size(Strict):
    """A size as printed, exact to `slack_bytes` on either side."""

    bytes: int
    slack_bytes: int


class Entry(Strict):
    """A number of the ledger. `origin` is "printed", "recorded" (by a memory snapshot, or by the run), "simulated" (by
    a trace, whose capacity is what PyTorch can have), or the identity that gave it ("= reserved - allocated")."""

    bytes: int
    slack_bytes: int
    origin: str


class Problem(Strict):
    """Printed numbers that cannot all be true."""

    code: str
    text: str


class Ledger(Strict):
    """Where every byte of the device was.

    capacity = free + other_processes + process; process = outside + reserved; reserved = allocated + cached;
    not_torch = capacity - free - reserved. null: neither printed nor derivable.
    """

    capacity: Entry | None
    free: Entry | None
    other_processes: Entry | None
    process: Entry | None
    outside: Entry | None
    not_torch: Entry | None
    reserved: Entry | None
    allocated: Entry | None
    cached: Entry | None
    private_pool: Annotated[Entry | None, Meta(description="Part of allocated, held by CUDA graphs.")]
    limit: Annotated[Entry | None, Meta(description="The most that PyTorch may reserve.")]
    request: Annotated[Entry | None, Meta(description="What was asked of PyTorch's allocator.")]
    segment: Annotated[Entry | None, Meta(description="What the allocator asked of the driver for it.")]
    short_by_bytes: Annotated[int | None, Meta(description="segment - free, never below 0.")]
    unexplained_bytes: Annotated[int | None, Meta(description="not_torch less its named parts.")]
    problems: list[Problem]


class Frame(Strict):
    """A traceback frame; `code` is its source line, "" if it was not printed."""

    file: str
    line: int
    function: str
    code: str


class PhaseVerdict(Strict):
    """The phase and what decided it. `first_step`: true when no optimizer step had been finished, null if unknown."""

    phase: Phase
    evidence: Literal["frame", "log_line", "snapshot", "recorded", "none"]
    why: str
    frame: Frame | None
    quote: Quote | None
    first_step: bool | None
    recompute: bool


class Process(Strict):
    """A process that the message lists; `used` is null when what is printed is no size."""

    pid: int
    used: Size | None


class Incident(Strict):
    """One failure of one rank, however often it was printed."""

    format: str
    kind: str
    vendor: str
    status: Annotated[str, Meta(description="fatal, caught, or consequence (died of another's failure).")]
    why_status: str
    rank: Annotated[int | None, Meta(description="Global rank.")]
    device: Annotated[int | None, Meta(description="Index of the device as the process sees it.")]
    raised: bool
    truncated: bool
    artefacts: list[str]
    detail: dict[str, str]
    numbers: Annotated[dict[str, Size], Meta(description="What the message prints, by name.")]
    processes: list[Process]
    phase: PhaseVerdict
    ledger: Ledger
    quote: Quote
    copies: Annotated[list[Quote], Meta(description="Other prints of the same failure.")]


class Consequence(Strict):
    """A rank that died of another's failure."""

    rank: int
    why: str


class Ranks(Strict):
    """Who failed first and how that is known."""

    first: int | None
    how: str
    failed: list[int]
    consequences: list[Consequence]
    notes: list[str]


class Finding(Strict):
    """A diagnosis. The list is ranked, best first. `numbers` are bytes where the name ends in _bytes."""

    code: str
    cause: str
    name: str
    certainty: Certainty
    says: str
    phase: Phase
    rank: int | None
    numbers: dict[str, int]
    evidence: list[Quote]
    actions: list[str]


class RuledOut(Strict):
    """A cause that was considered and set aside, with the number that did it."""

    cause: str
    why: str


class Branch(Strict):
    """What comes next after one outcome of a step."""

    outcome: str
    then: str


class Predicted(Strict):
    """What a step is predicted to free, allocated, in the failing phase (below 0: it needs more; null: not predicted).
    `enough`: whether that is what was missing and the changed job fits; null where that is open. `peak_bytes`: the
    changed job's highest peak. `doubtful`: prediction and log disagree."""

    change: str
    says: str
    frees_bytes: int | None
    missing_bytes: int | None
    enough: bool | None
    peak_bytes: int | None
    doubtful: bool


class Step(Strict):
    """One thing to do; `paste` is a command or code, "" for none; `frees_bytes` what it must free at least; `predicted`
    is there where the job is known."""

    code: str
    title: str
    text: str
    paste: str
    frees_bytes: int | None
    outcomes: list[Branch]
    predicted: Predicted | msgspec.UnsetType = msgspec.UNSET


class Advice(Strict):
    """The first change, then what follows its result; what not to do; what to collect."""

    first: Step
    then: list[Step]
    avoid: list[str]
    collect: list[Step]


class Fact(Strict):
    """Something that the input says about the job or the machine."""

    name: str
    value: str
    rank: int | None
    quote: Quote


class JobField(Strict):
    """A field of the job, its value as text, and what says it; `quote` is null where no line of the input does."""

    path: str
    value: str
    says: str
    quote: Quote | None


class Agreement(Strict):
    """The plan's peak in the failing phase held against the log. "on_the_way": the request failed before the peak, so
    that the log neither confirms nor contradicts the plan. `needed_bytes`: allocated and the request that failed."""

    verdict: Literal["agrees", "on_the_way", "more", "less", "unknown"]
    says: str
    predicted_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    needed_bytes: int | None


class PlannedJob(Strict):
    """The job that the log shows or that was given, and how its plan agrees with the log."""

    agreement: Agreement
    fields: list[JobField]
    assumptions: list[str]
    notes: list[str]


class Source(Strict):
    """An input. `partial`: only the interesting places of a large file were kept, so there may be more lines."""

    source: str
    lines: int
    size_bytes: int
    rank: int | None
    attempt: int | None
    partial: bool
    notes: list[str]


class Report(Strict):
    """The answer of `oomph explain --format json`."""

    schema_version: Literal["1"]
    oomph_version: str
    outcome: Literal["failed", "recovered", "no_oom"]
    exit_code: Annotated[int, Meta(description="0: nothing failed for lack of memory; 1: it did.")]
    summary: str
    phase: Annotated[
        PhaseVerdict | None,
        Meta(
            description="The incident's, or that of the error that ended the job when no memory failure did."
        ),
    ]
    incident: Annotated[Incident | None, Meta(description="The failure that is explained.")]
    incidents: list[Incident]
    ranks: Ranks
    findings: list[Finding]
    ruled_out: list[RuledOut]
    advice: Advice | None
    job: list[Fact]
    other_errors: list[Quote]
    notes: list[str]
    sources: list[Source]
    plan: Annotated[PlannedJob | msgspec.UnsetType, Meta(description="There where the job is known.")] = (
        msgspec.UNSET
    )
