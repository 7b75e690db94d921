"""Compares what was claimed with what was expected, one log at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.conformance.claims import Claims
from tests.conformance.first_actions import acceptable
from tests.conformance.labels import Label

DECIDED = frozenset({"frame", "log_line"})


@dataclass(frozen=True)
class Miss:
    """One wrong answer: in which log, about what, and the two values."""

    log: str
    what: str
    expected: str
    got: str


@dataclass
class Tally:
    """The rates over all logs. Each pair is (right, total); the plain counts are of mistakes."""

    logs: int = 0
    numbers_right: int = 0
    numbers_total: int = 0
    phase_right: int = 0
    phase_total: int = 0
    phase_guessed: int = 0
    cause_right: int = 0
    cause_total: int = 0
    cause_ranked: int = 0
    cause_ranked_total: int = 0
    false_alarms: int = 0
    exit_wrong: int = 0
    not_reported: int = 0
    false_mentions: int = 0
    format_right: int = 0
    format_total: int = 0
    rank_right: int = 0
    rank_total: int = 0
    first_rank_right: int = 0
    first_rank_total: int = 0
    first_action_right: int = 0
    first_action_total: int = 0
    first_fix_right: int = 0
    first_fix_total: int = 0
    crashes: int = 0
    misses: list[Miss] = field(default_factory=list)

    def count(self, right: str, total: str, ok: bool) -> None:
        """Adds one answer to the pair of counters named `right` and `total`."""
        setattr(self, total, getattr(self, total) + 1)
        setattr(self, right, getattr(self, right) + ok)

    def miss(self, label: Label, what: str, expected: object, got: object) -> None:
        self.misses.append(Miss(label.log, what, str(expected), str(got)))


def score(answers: Iterable[tuple[Label, Claims]]) -> Tally:
    """The rates of all answers."""
    tally = Tally()
    for label, claims in answers:
        tally.logs += 1
        if claims.crash:
            tally.crashes += 1
            tally.miss(label, "crash", "an answer", claims.crash)
        for check in (_numbers, _phase, _cause, _outcome, _format, _ranks, _first_action):
            check(tally, label, claims)
    return tally


def _numbers(tally: Tally, label: Label, claims: Claims) -> None:
    """One count per printed number, and one per number that was claimed although the message does not print it."""
    for name, expected in label.numbers.items():
        got = claims.numbers.get(name)
        if expected is None and got is None:
            continue
        ok = got == expected
        tally.count("numbers_right", "numbers_total", ok)
        if not ok:
            wanted = "not printed" if expected is None else expected
            tally.miss(label, f"number {name}", wanted, "not read" if got is None else got)


def _phase(tally: Tally, label: Label, claims: Claims) -> None:
    if label.phase_evidence in DECIDED:
        ok = claims.phase == label.phase
        tally.count("phase_right", "phase_total", ok)
        if not ok:
            tally.miss(label, f"phase ({label.phase_evidence})", label.phase, claims.phase)
    elif label.phase == "unknown" and claims.phase != "unknown":
        tally.phase_guessed += 1
        tally.miss(label, "phase guessed", "unknown", claims.phase)


def _cause(tally: Tally, label: Label, claims: Claims) -> None:
    if label.confidence not in ("high", "medium"):
        return
    nothing_said = label.must_not_report and label.cause == "not_an_oom" and claims.outcome == "no_oom"
    expected = " or ".join([label.cause, *sorted(label.alternatives)])
    got = ", ".join(claims.causes) or "no finding"
    if label.confidence == "high":
        ok = nothing_said or (bool(claims.causes) and claims.causes[0] in label.causes)
        tally.count("cause_right", "cause_total", ok)
        if not ok:
            tally.miss(label, "cause (high: must be first)", expected, got)
    else:
        ok = nothing_said or not label.causes.isdisjoint(claims.causes)
        tally.count("cause_ranked", "cause_ranked_total", ok)
        if not ok:
            tally.miss(label, "cause (medium: must be among)", expected, got)


def _outcome(tally: Tally, label: Label, claims: Claims) -> None:
    if claims.crash:
        return
    said = f"{claims.outcome}, exit {claims.exit_code}, {claims.format}"
    if label.must_not_report and (claims.device_failure or claims.exit_code != 0):
        tally.false_alarms += 1
        tally.miss(label, "false alarm", "no failure for lack of memory", said)
    if label.ends_well and claims.exit_code != 0:
        tally.exit_wrong += 1
        tally.miss(label, "exit code", "0: the job did not die of it", said)
    if label.must_report and claims.exit_code == 0:
        tally.not_reported += 1
        tally.miss(label, "not reported", f"a failure ({label.format})", said)
    if label.format == "none" and claims.device_mentions:
        tally.false_mentions += 1
        tally.miss(label, "mentioned", "no out-of-memory in the log", f"{claims.device_mentions} listed")


def _format(tally: Tally, label: Label, claims: Claims) -> None:
    """A message that rightly goes unreported (a negative, an error without a message) has no format to name."""
    if claims.format == "none" and (label.must_not_report or label.format == "none_frame_only"):
        return
    ok = claims.format == label.format
    tally.count("format_right", "format_total", ok)
    if not ok:
        tally.miss(label, "format", label.format, claims.format)


def _ranks(tally: Tally, label: Label, claims: Claims) -> None:
    for right, total, what, expected, got in (
        ("rank_right", "rank_total", "rank", label.rank, claims.rank),
        (
            "first_rank_right",
            "first_rank_total",
            "first failing rank",
            label.first_failing_rank,
            claims.first_rank,
        ),
    ):
        if expected is None:
            continue
        tally.count(right, total, got == expected)
        if got != expected:
            tally.miss(label, what, expected, "not said" if got is None else got)


def _first_action(tally: Tally, label: Label, claims: Claims) -> None:
    """Twice: against our own first cause (is the advice the advice for it?), and against the label (high only)."""
    got = claims.first_action or "no action"
    if claims.causes:
        ok = acceptable(claims.causes[0], claims.first_action)
        tally.count("first_action_right", "first_action_total", ok)
        if not ok:
            tally.miss(label, "first action", f"one for {claims.causes[0]}", got)
    if label.confidence == "high" and not label.must_not_report:
        ok = any(acceptable(cause, claims.first_action) for cause in label.causes)
        tally.count("first_fix_right", "first_fix_total", ok)
        if not ok:
            tally.miss(label, "first fix", f"one for {label.cause}", got)
