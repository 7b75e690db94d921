"""The JSON document of `oomph doctor`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = "1"

Severity = Literal["error", "warning", "note"]
Certainty = Literal["certain", "likely", "possible"]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base: no fields but those that are named."""


class Quote(Strict):
    """Where something was read. `line` is 1-based; 0 for what the live machine was asked."""

    source: str
    line: int
    text: str


class Finding(Strict):
    """Something that is wrong, or (severity note) good to know. `says` is what, `does` its effect on a job, `fix` the
    first thing to do and `paste` the command, line or value for it; `wrong` tempting advice that does not help.
    `subject` is what it is about ("GPU 3"); an empty string is "nothing to say"."""

    code: str
    cause: str
    name: str
    severity: Severity
    certainty: Certainty
    subject: str
    says: str
    does: str
    fix: str
    paste: str
    wrong: str
    safe_fix: Annotated[bool, Meta(description="Of a script: --fix can make the change.")]
    numbers: Annotated[
        dict[str, int], Meta(description="By name: bytes where it ends in _bytes, else counts.")
    ]
    evidence: list[Quote]


class Told(Strict):
    """A check without a finding, and why."""

    code: str
    cause: str
    name: str
    why: str


class Source(Strict):
    """Something that was read, and what it was taken for; or passed over, and why."""

    source: str
    what: str


class Report(Strict):
    """The answer. `live`: of this machine, asked just now. `missing`: by field of a machine's description, why it could
    not be read."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Literal[0, 1]
    summary: str
    live: bool
    machine: Annotated[str, Meta(description="The machine in one sentence.")]
    errors: int
    warnings: int
    notices: Annotated[int, Meta(description="Findings of severity note.")]
    findings: list[Finding]
    clear: list[Told]
    could_not_tell: list[Told]
    notes: list[str]
    sources: list[Source]
    passed_over: list[Source]
    missing: dict[str, str]
