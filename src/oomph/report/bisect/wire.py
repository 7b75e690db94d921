"""The JSON document of `oomph bisect`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oomph.report.wire import Strict

SCHEMA_VERSION = "1"

Value = int | float | str
Verdict = Literal["cause", "together", "leak", "passes", "nothing_fits", "unknown"]
Outcome = Literal["fits", "oom", "host_oom", "crashed", "communication", "hung", "disk", "lost", "cancelled"]


class Variable(Strict):
    """What was varied. `largest` fits and `fails` is the least value above it that was tried and does not, where
    `searched`; `at` is what the other variables had when `largest` was tried. Otherwise `largest` is the value of the
    setting that was found."""

    name: str
    kind: Literal["placeholder", "argument", "environment", "file"]
    target: str
    values: list[Value]
    halved: Annotated[
        bool, Meta(description="Memory is taken not to grow along the values: they were halved.")
    ]
    why_halved: str
    cause: bool
    searched: bool
    largest: Value | None
    fails: Value | None
    at: dict[str, Value]


class Line(Strict):
    """Allocated bytes of a phase: `base_bytes` + `slope_bytes` x value. `points` are (value, bytes) as measured; of two
    points nothing tests the line; of more, `deviation_bytes` is the most that one lies off it."""

    variable: str
    phase: str
    slope_bytes: float
    base_bytes: float
    points: list[tuple[float, int]]
    deviation_bytes: int | None


class Peak(Strict):
    """The most of a phase in a trial, on the rank that needed most. `failed`: memory ran out in it, so that it needs
    more."""

    phase: str
    allocated_bytes: int
    reserved_bytes: int | None
    rank: int | None
    failed: bool


class Trial(Strict):
    """One trial. `known_by` says by what its outcome is known: records, trace, output or exit code."""

    number: int
    setting: dict[str, Value]
    outcome: Outcome
    why: str
    phase: str
    rank: int | None
    step: int | None
    world_size: int | None
    request_bytes: int | None
    capacity_bytes: int | None
    growth_bytes: int | None
    peaks: list[Peak]
    seconds: float
    exit_code: int | None
    directory: str
    known_by: str


class Recommended(Strict):
    """A setting that fits, or is below one that does. `headroom` is the share of the card that stays free; `enough`:
    as much as was asked for."""

    setting: dict[str, Value]
    why: str
    peak_bytes: int | None
    measured: bool
    headroom: float | None
    enough: bool


class Report(Strict):
    """The answer of `oomph bisect --format json`."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Annotated[int, Meta(description="0: isolated, or it does not fail. 1: not isolated.")]
    verdict: Verdict
    summary: str
    causes: Annotated[list[str], Meta(description="Variables by name; several only together.")]
    setting: Annotated[
        dict[str, Value] | None, Meta(description="The largest setting that was shown to fit.")
    ]
    command: list[str]
    engine: str
    folder: str
    variables: list[Variable]
    lines: list[Line]
    recommended: Recommended | None
    trials: list[Trial]
    not_tested: list[str]
    notes: list[str]
    next_commands: list[str]
