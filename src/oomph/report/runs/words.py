"""Rows and sentences of lists and single runs that text and Markdown share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from oomph.diagnose.runs.model import RunFacts
from oomph.evidence.run.data import Peaks, RankData, RunData
from oomph.phases import Phase
from oomph.report.clean import clean, flat
from oomph.units import format_bytes

#: Ranks that are listed one by one without `everything`, and characters of a value.
_RANKS, _VALUE = 8, 60
_SHORT = {Phase.LOAD: "load", Phase.FORWARD: "forward", Phase.BACKWARD: "backward", Phase.OPTIMIZER: "optim.",
          Phase.EVAL: "eval"}  # fmt: skip


def tidy(text: object, limit: int = 400) -> str:
    """A text of somebody else's on one line."""
    line = flat(clean(str(text)))
    return line if len(line) <= limit else f"{line[: limit - 2]}.."


def started(run: RunFacts) -> str | None:
    """When it began, in UTC, ISO 8601."""
    if run.started <= 0:
        return None
    try:
        return datetime.fromtimestamp(run.started, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


def whole(run: RunFacts, key: str) -> int | None:
    """A fact as a whole number."""
    value = run.number(key)
    return None if value is None else round(value)


def peaks_of(run: RunFacts) -> dict[str, int]:
    """The highest peak of each phase, in their order."""
    found = {phase.value: whole(run, f"phase.{phase.value}.peak") for phase in Phase}
    return {name: peak for name, peak in found.items() if peak is not None}


def size(value: int | None, empty: str = "-") -> str:
    """A size, or a dash."""
    return empty if value is None else format_bytes(value)


def list_rows(runs: Sequence[RunFacts]) -> list[list[str]]:
    """Heads and a row for each run."""
    phases = [phase for phase in _SHORT if any(f"phase.{phase.value}.peak" in run.values for run in runs)]
    rows = [
        [
            "run",
            "started (UTC)",
            "outcome",
            "ranks",
            "steps",
            *(_SHORT[phase] for phase in phases),
            "GPU, model, name",
        ]
    ]
    for run in runs:
        when = (started(run) or "-").replace("T", " ").removesuffix("Z")[:16]
        about = [
            run.text("gpu.known_as") or run.text("gpu.name") or run.text("device"),
            run.text("model.id"),
            run.name,
        ]
        rows.append(
            [
                tidy(run.label, 40),
                when,
                outcome_of(run),
                run.text("world_size") or "-",
                run.text("steps") or "-",
                *(size(whole(run, f"phase.{phase.value}.peak")) for phase in phases),
                ", ".join(tidy(each, _VALUE) for each in about if each),
            ]
        )
    return rows


def run_line(run: RunFacts) -> list[str]:
    """The first line of a run in a list: what it is called, when it began, how it ended, its ranks and steps."""
    ranks, steps = run.text("world_size"), run.text("steps")
    return [
        tidy(run.label, 40),
        (started(run) or "-").replace("T", " ").removesuffix("Z")[:16],
        outcome_of(run),
        f"{ranks} ranks" if ranks and ranks != "1" else "1 rank" if ranks else "",
        f"{steps} steps" if steps else "",
        tidy(run.name, 40),
    ]


def run_details(run: RunFacts) -> str:
    """The second: peaks of phases, of what capacity, on which GPU, of which model."""
    peaks = ", ".join(f"{name} {format_bytes(peak)}" for name, peak in peaks_of(run).items())
    capacity = whole(run, "capacity")
    room = f" of {format_bytes(capacity)}" if capacity and peaks else ""
    about = [run.text("gpu.known_as") or run.text("gpu.name") or run.text("device"), run.text("model.id")]
    return "; ".join(filter(None, (f"{peaks}{room}", *(tidy(each, _VALUE) for each in about if each))))


def outcome_of(run: RunFacts) -> str:
    """The outcome, with the phase of a failure."""
    phase = run.text("failed.phase")
    return f"{run.outcome} in {phase}" if phase and run.outcome == "oom" else _said(run.outcome)


def _said(outcome: str) -> str:
    """An outcome in words. os._exit leaves no last record either: a kill is not claimed."""
    return "killed, or left without a last record" if outcome == "killed" else outcome


def show_headline(facts: RunFacts, data: RunData) -> str:
    """How the run went, in a sentence."""
    failed = data.first_failure
    peak, phase = whole(facts, "peak"), facts.text("peak.phase")
    name = f"{facts.label} ({facts.name})" if facts.name else facts.label
    highest = "" if peak is None else f"; the highest peak was {format_bytes(peak)} in {phase}"
    if failed is None:
        return f"{tidy(name)}: {_said(facts.outcome)}{highest}"
    where = facts.text("failed.phase")
    ranks = "rank" if len(failed.ranks) == 1 else "ranks"
    listed = ", ".join(map(str, failed.ranks[:8]))
    how = "ran out of memory" if facts.outcome == "oom" else f"ended: {_said(facts.outcome)}"
    return f"{tidy(name)}: {ranks} {listed} {how}{f' in {where}' if where else ''}{highest}"


def about_rows(facts: RunFacts, data: RunData) -> list[list[str]]:
    """What the run was."""
    pairs = [
        ("where", facts.path),
        ("started", (started(facts) or "not known").replace("T", " ").replace("Z", " UTC")),
        ("command", facts.text("command.typed") or facts.text("command")),
        ("ranks", _ranks_words(facts, data)),
        ("GPU", facts.text("gpu.name") or facts.text("device")),
        ("capacity", size(whole(facts, "capacity"), "")),
        ("model", facts.text("model.id")),
        ("optimizer steps", facts.text("steps")),
        ("longest batch", facts.text("batch.longest")),
        ("exit code", facts.text("exit_code")),
    ]
    return [[name, tidy(value)] for name, value in pairs if value]


def _ranks_words(facts: RunFacts, data: RunData) -> str:
    outcomes = [
        f"{facts.values[key]} {key.removeprefix('outcomes.')}"
        for key in sorted(facts.values)
        if key.startswith("outcomes.")
    ]
    missing = f", {len(data.missing)} wrote nothing" if data.missing else ""
    return f"{facts.text('world_size') or len(data.ranks)} ({', '.join(outcomes)}{missing})"


def phase_rows(data: RunData, everything: bool) -> list[list[str]]:
    """Heads, then a row per phase and rank, the first step apart; of many ranks those with most and least per phase."""
    rows = [["phase", "rank", "first step", "later", "reserved", "within", "free", "others"]]
    for phase in Phase:
        ranks = [rank for rank in data.ranks.values() if phase in rank.summaries]
        for rank in ranks if everything or len(ranks) <= _RANKS else _extremes(ranks, phase):
            summary = rank.summaries[phase]
            both = [each for each in (summary.first, summary.later) if each is not None]
            rows.append(
                [
                    phase.value,
                    str(rank.rank),
                    _allocated(summary.first),
                    _allocated(summary.later),
                    size(max((each.reserved_bytes for each in both), default=None)),
                    size(max((each.growth_bytes for each in both), default=None)),
                    size(min((each.free_bytes for each in both if each.free_bytes is not None), default=None)),
                    size(max((each.other_processes_bytes for each in both if each.other_processes_bytes is not None),
                             default=None)),
                ]
            )  # fmt: skip
    return rows


def _extremes(ranks: Sequence[RankData], phase: Phase) -> list[RankData]:
    ordered = sorted(ranks, key=lambda rank: rank.summaries[phase].peak_allocated_bytes)
    return [ordered[-1], ordered[0]]


def _allocated(peaks: Peaks | None) -> str:
    return "-" if peaks is None else format_bytes(peaks.allocated_bytes)


def left_out_words(data: RunData, everything: bool) -> str:
    """Which ranks the table does not show."""
    count = len(data.ranks)
    if everything or count <= _RANKS:
        return ""
    return f"Of {count:,} ranks, those with the highest and the lowest peak of each phase are shown (--all shows each)."


def fact_rows(facts: RunFacts, families: Sequence[str]) -> list[list[str]]:
    """Names and values of the fingerprint."""
    return [
        [key, tidy(value, 200)]
        for key, value in sorted(facts.values.items())
        if key.partition(".")[0] in families
    ]
