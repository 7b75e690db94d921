"""The JSON document of `oomph verify`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = "1"

Phase = Literal["init", "load", "forward", "backward", "optimizer", "eval", "generate", "save", "unknown"]
Status = Literal["passed", "failed", "could not tell", "skipped"]
Verdict = Literal["passed", "failed", "could not tell"]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base: no fields but those that are named."""


class Answer(Strict):
    """What one check says. `check` is its name, which stays the same; `subject` tells several answers of one check
    apart. `rank` and `phase`: where it was decided, null where that is nowhere in particular."""

    check: str
    subject: str
    status: Status
    text: Annotated[str, Meta(description="A sentence with the numbers that the answer rests on.")]
    rank: int | None
    phase: Phase | None
    numbers: Annotated[
        dict[str, float],
        Meta(description="By name: bytes where it ends in _bytes, otherwise what its ending says."),
    ]


class Report(Strict):
    """The answer of `oomph verify`. `strict`: what could not be told counts as failed."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Literal[0, 1]
    verdict: Verdict
    summary: str
    strict: bool
    run: Annotated[str, Meta(description="The run's id.")]
    path: str
    outcome: Annotated[str, Meta(description="How the run ended, by its records.")]
    passed: int
    failed: int
    could_not_tell: int
    skipped: int
    answers: list[Answer]
    notes: list[str]
