"""The JSON document of `oomph plan --fit`, `--max` and a comparison of machines, version 1, as types.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes, times seconds.
"""

from __future__ import annotations

from typing import Any, Literal

from oomph.report.plan.wire import Phase, Strict

SCHEMA_VERSION = "1"


class Change(Strict):
    """One change. `lines` are what to write in the framework's own words, `verify` how to see that it took effect.
    `allow`: the word of --allow that it needs, "" for none."""

    code: str
    title: str
    numerics: Literal["unchanged", "close", "changed"]
    effort: Literal["flag", "code"]
    allow: str
    lines: list[str]
    verify: str


class Part(Strict):
    """A part of a step's time, and how it is counted."""

    name: str
    seconds: float
    formula: str


class Choice(Strict):
    """A combination of changes. `time`: its time per token divided by that of the job as it was. `fits`: after playing
    it through the allocator; null where that is open or was not done. `fidelity`: 0 the same operations, 1 for each
    change in rounding, 10 for each in mathematics or bits."""

    changes: list[Change]
    peak_bytes: int
    upper_bytes: int
    step_seconds: float
    time: float | None
    fidelity: int
    fits: bool | None
    parts: list[Part]
    job: dict[str, Any]


class Fit(Strict):
    """What makes it fit, the fastest first; `nearest` where nothing does."""

    failing: list[Phase]
    step_seconds: float | None
    choices: list[Choice]
    nearest: Choice | None
    not_allowed: list[Change]
    tried: int
    complete: bool


class Largest(Strict):
    """The largest that fits: samples, tokens or parameters. 0: not even the smallest; null: no capacity is known."""

    what: Literal["batch", "seq", "params"]
    value: int | None
    peak_bytes: int | None
    next_bytes: int | None
    layers: int | None


class MachineFit(Strict):
    """One machine type. `refused`: why nothing was predicted, "" where it was. `same_batch`: a step has as many
    samples as the job's."""

    machine: str
    provider: str
    gpu: str
    gpus: int
    peak_bytes: int | None
    capacity_bytes: int | None
    fits: bool | None
    step_seconds: float | None
    same_batch: bool
    refused: str


class Report(Strict):
    """The document; one of `fit`, `largest` and `machines` is there."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: int
    summary: str
    room_bytes: int | None
    job: dict[str, Any]
    fit: Fit | None
    largest: Largest | None
    machines: list[MachineFit] | None
    unsupported: list[str]
    notes: list[str]
