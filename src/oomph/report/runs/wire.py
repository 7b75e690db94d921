"""The JSON documents of `oomph runs list|show|diff`; the schemas in report/schema are generated from these types.

Sizes are bytes, times seconds; null: not recorded.
"""

from __future__ import annotations

import msgspec

SCHEMA_VERSION = "1"


class Failed(msgspec.Struct, forbid_unknown_fields=True):
    """Who failed first, and where."""

    ranks: list[int]
    certain: bool
    why: str
    phase: str | None
    victims: list[int]


class RunRow(msgspec.Struct, forbid_unknown_fields=True):
    """A run in short. `started`: UTC, ISO 8601. `phases`: the highest allocated bytes of each phase on any rank."""

    id: str
    name: str
    path: str
    started: str | None
    outcome: str
    world_size: int | None
    gpu: str | None
    model: str | None
    steps: int | None
    capacity_bytes: int | None
    peak_bytes: int | None
    peak_phase: str | None
    reserved_bytes: int | None
    phases: dict[str, int]


class ListReport(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of `oomph runs list`, newest first. `left_out`: how many more there are."""

    schema_version: str
    oomph_version: str
    query: str | None
    runs: list[RunRow]
    left_out: int
    notes: list[str]


class Peaks(msgspec.Struct, forbid_unknown_fields=True):
    """The largest values of a phase."""

    records: int
    seconds: float
    allocated_bytes: int
    reserved_bytes: int
    active_bytes: int
    within_bytes: int
    step: int
    retries: int
    ooms: int
    free_bytes: int | None
    outside_bytes: int | None
    other_processes_bytes: int | None
    rss_bytes: int | None
    pinned_bytes: int | None
    batch: dict[str, list[int]]


class PhaseRow(msgspec.Struct, forbid_unknown_fields=True):
    """One phase of one rank: until the first optimizer step has ended, and after it."""

    phase: str
    first: Peaks | None
    later: Peaks | None


class RankRow(msgspec.Struct, forbid_unknown_fields=True):
    """One rank."""

    rank: int
    outcome: str
    why: str
    host: str | None
    device: str | None
    capacity_bytes: int | None
    steps: int
    ooms: int
    doing: str | None
    phases: list[PhaseRow]
    notes: list[str]


class ShowReport(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of `oomph runs show`. `facts`: what queries can ask for."""

    schema_version: str
    oomph_version: str
    run: RunRow
    failed: Failed | None
    exit_code: int | None
    ranks: list[RankRow]
    missing_ranks: list[int]
    facts: dict[str, str | int | float]
    missing: dict[str, str]
    notes: list[str]


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """A fact that differs. Null: not there. `others`: how many of the others have each value."""

    fact: str
    before: str | int | float | None
    after: str | int | float | None
    others: dict[str, int]


class Suspect(msgspec.Struct, forbid_unknown_fields=True):
    """A change and what it could do to memory. suspicion: explains, likely, possible, unlikely, harmless."""

    change: Change
    kind: str
    suspicion: str
    effect: str
    expected_bytes: int | None
    phases: list[str]
    sources: list[str]
    also: list[Change]


class Memory(msgspec.Struct, forbid_unknown_fields=True):
    """A number of both. `beyond`: it differs by more than its noise."""

    fact: str
    label: str
    is_bytes: bool
    before: int | None
    after: int | None
    difference: int | None
    low: int | None
    high: int | None
    beyond: bool


class PlannedPhase(msgspec.Struct, forbid_unknown_fields=True):
    """What the plans of both jobs say of a phase."""

    phase: str
    before_bytes: int
    after_bytes: int


class Planned(msgspec.Struct, forbid_unknown_fields=True):
    """What the plans of both runs' jobs say the change is worth, or why there are none."""

    why: str
    before_bytes: int | None
    after_bytes: int | None
    phases: list[PlannedPhase]


class DiffReport(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of `oomph runs diff`: `run` held against `others`. `equal`: how many facts are the same."""

    schema_version: str
    oomph_version: str
    exit_code: int
    summary: str
    run: RunRow
    others: list[RunRow]
    suspects: list[Suspect]
    memory: list[Memory]
    equal: int
    planned: Planned | None
    notes: list[str]
