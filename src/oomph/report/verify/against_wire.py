"""The JSON document of `oomph plan --against RUN`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from oomph.report.verify.wire import Phase, Strict

SCHEMA_VERSION = "1"

ExitCode = Literal[0, 1, 2]


class Row(Strict):
    """One phase. `low_bytes` to `high_bytes` is the prediction's interval; `first_step_bytes` is the recorded peak up
    to the end of the first optimizer step, `later_bytes` the one after it, `needed_bytes` what a request that failed
    would have made of it. `within` is null where it cannot be told,
    and `open` says why. `expected_bytes`: the prediction for the job as the run had it; `unexplained_bytes`: what was
    recorded less that."""

    phase: Phase
    rank: int | None
    predicted_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    predicted_reserved_bytes: int | None
    recorded_bytes: int | None
    first_step_bytes: int | None
    later_bytes: int | None
    needed_bytes: int | None
    recorded_reserved_bytes: int | None
    difference_bytes: int | None
    within: bool | None
    open: str
    expected_bytes: int | None
    expected_low_bytes: int | None
    expected_high_bytes: int | None
    unexplained_bytes: int | None


class Cause(Strict):
    """In what the run was not what was planned. `bytes`: by phase, how the prediction changes for it."""

    kind: Literal["batch", "ranks", "version", "gpu", "setting", "together"]
    text: str
    bytes: dict[str, int]
    unsupported: Annotated[str, Meta(description='Why it cannot be planned; "" where it can.')]


class CategoryRow(Strict):
    """One category: predicted at the phase's peak, recorded in the snapshot."""

    category: str
    predicted_bytes: int
    recorded_bytes: int
    difference_bytes: int
    certainty: Annotated[str, Meta(description='Of the recorded category; "" where it has no bytes.')]


class Categories(Strict):
    """The categories of one moment of one rank."""

    rank: int
    phase: Phase
    text: str
    rows: list[CategoryRow]


class Beside(Strict):
    """What of the card was not in tensors, at its most, null where it is not known. `cached_bytes`: reserved and not
    handed out. `outside_bytes`: this process beside the allocator; `outside_with_others_bytes`: the same with other
    processes, from what the card had free."""

    rank: int
    cached_bytes: int | None
    cached_predicted_bytes: int | None
    outside_bytes: int | None
    outside_low_bytes: int | None
    outside_high_bytes: int | None
    outside_with_others_bytes: int | None
    other_processes_bytes: int | None


class Report(Strict):
    """The answer. `job` is the job that was planned, `source` where it comes from."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: ExitCode
    summary: str
    run: str
    path: str
    outcome: str
    source: str
    job: dict[str, Any]
    ranks: Annotated[str, Meta(description="The kind of rank that is compared, as the plan names it.")]
    rows: list[Row]
    causes: list[Cause]
    beside: Beside | None
    categories: Categories | None
    why_no_categories: str
    assumptions: list[str]
    unsupported: list[str]
    notes: list[str]
