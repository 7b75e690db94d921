"""Two failed runs of one job side by side: what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oomph.diagnose.model import Diagnosis, Outcome
from oomph.diagnose.streams import last_step
from oomph.evidence.model import FACT_NAMES
from oomph.units import format_bytes


@dataclass(frozen=True)
class Compared:
    """One thing in both runs, as text; "" where a run does not show it."""

    section: str
    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """Both diagnoses and what was compared."""

    title_a: str
    title_b: str
    a: Diagnosis
    b: Diagnosis
    rows: tuple[Compared, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """For each run that failed, the cause and the first change in a line: comparing never loses the answer."""
        return tuple(
            f"{title}: {_answer(one)}"
            for title, one in ((self.title_a, self.a), (self.title_b, self.b))
            if one.outcome is Outcome.FAILED
        )

    @property
    def exit_code(self) -> int:
        """1 when either run failed for lack of memory."""
        return max(self.a.exit_code, self.b.exit_code)


_LEDGER = (
    ("request", "segment_bytes"),
    ("capacity", "capacity_bytes"),
    ("free", "free_bytes"),
    ("allocated", "allocated_bytes"),
    ("cached", "cached_bytes"),
    ("reserved", "reserved_bytes"),
    ("this process", "process_bytes"),
    ("outside PyTorch", "outside_bytes"),
    ("other processes", "other_processes_bytes"),
    ("private pools", "private_pool_bytes"),
    ("limit", "limit_bytes"),
)


def compare(title_a: str, a: Diagnosis, title_b: str, b: Diagnosis) -> Comparison:
    """Sets two diagnoses side by side. Facts that neither run shows are left out."""
    rows: list[Compared] = []

    def add(section: str, what: str, read: Callable[[Diagnosis], str]) -> None:
        left, right = read(a), read(b)
        if left or right:
            rows.append(Compared(section, what, left, right))

    add("Failure", "what", lambda one: one.summary)
    add("Failure", "outcome", lambda one: str(one.outcome.value))
    add("Failure", "phase", lambda one: str(one.phase.phase) if one.phase else "")
    add("Failure", "decided by", _decider)
    add("Failure", "first rank", lambda one: "" if one.ranks.first is None else str(one.ranks.first))
    add("Failure", "ranks failed", lambda one: ", ".join(map(str, one.ranks.failed)))
    add("Failure", "step reached", _step)
    add(
        "Failure",
        "cause",
        lambda one: f"{one.findings[0].cause} ({one.findings[0].certainty})" if one.findings else "",
    )
    for what, name in _LEDGER:
        add("Memory", what, lambda one, name=name: _size(one, name))  # type: ignore[misc]
    names = {fact.name for one in (a, b) for fact in one.job}
    for name in FACT_NAMES:
        if name in names:
            add("Job", name.replace("_", " "), lambda one, name=name: _fact(one, name))  # type: ignore[misc]
    return Comparison(title_a, title_b, a, b, tuple(rows))


def _answer(one: Diagnosis) -> str:
    best = one.findings[0] if one.findings else None
    cause = "the cause is unknown" if best is None else f"{best.code} {best.name} ({best.certainty})"
    first = "" if one.advice is None else f". First change: {one.advice.first.title.rstrip('.')}"
    return f"{cause}{first}."


def _size(one: Diagnosis, name: str) -> str:
    if one.incident is None:
        return ""
    value = getattr(one.incident.ledger, name)
    if not isinstance(value, int):
        return ""
    ledger = one.incident.ledger
    slack = ledger.slack_bytes.get(name, 0)
    # What was derived and is no more than rounding is a bound, here as in the report.
    is_bound = value <= slack and ledger.origins.get(name, "").startswith("=")
    return f"\u2264 {format_bytes(value + slack)}" if is_bound else format_bytes(value)


def _fact(one: Diagnosis, name: str) -> str:
    return next((fact.value for fact in one.job if fact.name == name), "")


def _decider(one: Diagnosis) -> str:
    frame = one.phase.frame if one.phase is not None else None
    if frame is None:
        return ""
    return f"{frame.function} in {frame.file.replace(chr(92), '/').rpartition('/')[2]}"


def _step(one: Diagnosis) -> str:
    if one.incident is None:
        return ""
    return (
        last_step(one.evidence, one.incident.failure.position, one.incident.rank, one.incident.status) or ""
    )
