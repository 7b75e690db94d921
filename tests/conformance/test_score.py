from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.claims import Claims
from tests.conformance.first_actions import FIRST_ACTIONS, acceptable
from tests.conformance.labels import Label
from tests.conformance.score import Tally, score

NUMBERS = {"requested_bytes": 20 << 20, "free_bytes": 7 << 20, "allowed_bytes": None}
LABEL = Label(
    log="a.log",
    path=Path("a.log"),
    format="F2_reserved",
    numbers=NUMBERS,
    rank=3,
    phase="forward",
    phase_evidence="frame",
    cause="activations",
    confidence="high",
)
RIGHT = Claims(
    outcome="failed",
    exit_code=1,
    format="F2_reserved",
    device_failure=True,
    device_mentions=1,
    numbers={"requested_bytes": 20 << 20, "free_bytes": 7 << 20, "capacity_bytes": 8 << 30},
    rank=3,
    first_rank=3,
    phase="forward",
    causes=("activations", "fragmentation"),
    first_action="micro-batch",
)
QUIET = Claims(outcome="no_oom", exit_code=0)


def of(label: Label, claims: Claims) -> Tally:
    return score([(label, claims)])


def whats(tally: Tally) -> list[str]:
    return [miss.what for miss in tally.misses]


def test_a_right_answer_has_no_misses():
    tally = of(LABEL, RIGHT)
    assert tally.misses == []
    assert (tally.numbers_right, tally.numbers_total) == (2, 2)
    assert (tally.phase_right, tally.phase_total) == (1, 1)
    assert (tally.cause_right, tally.cause_total) == (1, 1)
    assert (tally.first_action_right, tally.first_action_total) == (1, 1)
    assert (tally.cause_ranked_total, tally.crashes, tally.false_alarms) == (0, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "right", "total"),
    [
        ({"requested_bytes": 20 << 20, "free_bytes": 7 << 20}, 2, 2),
        ({"requested_bytes": (20 << 20) + 1, "free_bytes": 7 << 20}, 1, 2),
        ({"requested_bytes": 20 << 20}, 1, 2),
        ({"requested_bytes": 20 << 20, "free_bytes": 7 << 20, "allowed_bytes": 1}, 2, 3),
        ({}, 0, 2),
    ],
    ids=["exact", "one byte off", "one not read", "one invented", "none read"],
)
def test_numbers_count_to_the_byte_and_inventions_count_against(numbers, right, total):
    tally = of(LABEL, replace(RIGHT, numbers=numbers))
    assert (tally.numbers_right, tally.numbers_total) == (right, total)
    assert len(tally.misses) == total - right


def test_zero_is_a_number_and_not_the_same_as_none():
    label = replace(LABEL, numbers={"process_bytes": 0})
    assert of(label, replace(RIGHT, numbers={"process_bytes": 0})).numbers_right == 1
    assert of(label, replace(RIGHT, numbers={})).numbers_right == 0


def test_a_phase_without_proof_must_stay_unknown():
    label = replace(LABEL, phase="unknown", phase_evidence="none")
    assert of(label, replace(RIGHT, phase="unknown")).phase_guessed == 0
    guessed = of(label, RIGHT)
    assert (guessed.phase_guessed, guessed.phase_total) == (1, 0)
    assert whats(guessed) == ["phase guessed"]


def test_an_undecided_phase_with_a_name_is_not_scored():
    label = replace(LABEL, phase="forward", phase_evidence="none")
    tally = of(label, replace(RIGHT, phase="backward"))
    assert (tally.phase_total, tally.phase_guessed) == (0, 0)


@pytest.mark.parametrize(
    ("confidence", "causes", "right"),
    [
        ("high", ("activations",), True),
        ("high", ("logits_loss", "activations"), True),
        ("high", ("fragmentation", "activations"), False),
        ("high", (), False),
        ("medium", ("fragmentation", "other_process", "activations"), True),
        ("medium", ("fragmentation",), False),
    ],
)
def test_causes(confidence, causes, right):
    label = replace(LABEL, confidence=confidence, alternatives=frozenset({"logits_loss"}))
    tally = of(label, replace(RIGHT, causes=causes))
    pairs = {
        "high": (tally.cause_right, tally.cause_total),
        "medium": (tally.cause_ranked, tally.cause_ranked_total),
    }
    assert pairs[confidence] == (int(right), 1)
    assert pairs["medium" if confidence == "high" else "high"] == (0, 0)


def test_causes_of_low_confidence_are_not_scored():
    tally = of(replace(LABEL, confidence="low"), replace(RIGHT, causes=()))
    assert (tally.cause_total, tally.cause_ranked_total) == (0, 0)


NEGATIVE = replace(
    LABEL,
    format="none",
    numbers={"requested_bytes": None},
    rank=None,
    phase="unknown",
    phase_evidence="none",
    cause="not_an_oom",
    must_not_report=True,
)


def test_silence_about_a_log_without_an_oom_is_right():
    tally = of(NEGATIVE, QUIET)
    assert tally.misses == []
    assert (tally.cause_right, tally.cause_total) == (1, 1)
    assert (tally.format_total, tally.first_fix_total) == (0, 0)


def test_a_finding_that_says_it_is_no_oom_is_right_too():
    said = replace(QUIET, causes=("not_an_oom",), first_action="not-memory")
    assert of(NEGATIVE, said).misses == []


def test_a_failure_reported_where_there_is_none_is_a_false_alarm():
    tally = of(NEGATIVE, replace(RIGHT, numbers={}))
    assert tally.false_alarms == 1
    assert tally.cause_right == 0
    assert "false alarm" in whats(tally)


def test_any_failing_exit_code_on_such_a_log_is_a_false_alarm():
    assert of(NEGATIVE, replace(QUIET, exit_code=1)).false_alarms == 1


def test_an_oom_listed_in_a_log_that_has_none_is_counted_apart():
    tally = of(NEGATIVE, replace(QUIET, outcome="recovered", device_mentions=1))
    assert (tally.false_alarms, tally.false_mentions) == (0, 1)


def test_a_recovered_job_must_exit_0():
    label = replace(LABEL, ends_well=True)
    assert of(label, replace(RIGHT, outcome="recovered", exit_code=0, device_failure=False)).misses == []
    tally = of(label, RIGHT)
    assert (tally.exit_wrong, tally.false_alarms) == (1, 0)


def test_a_failure_that_is_not_reported_is_a_miss_of_everything():
    tally = of(LABEL, QUIET)
    assert tally.not_reported == 1
    assert (tally.numbers_right, tally.phase_right, tally.cause_right, tally.rank_right) == (0, 0, 0, 0)


def test_a_crash_counts_once_and_everything_that_was_asked_is_wrong():
    tally = of(LABEL, Claims(crash="ValueError: boom"))
    assert tally.crashes == 1
    assert (tally.numbers_right, tally.numbers_total) == (0, 2)
    assert (tally.phase_right, tally.phase_total) == (0, 1)
    assert (tally.cause_right, tally.cause_total) == (0, 1)
    assert tally.false_alarms == 0
    negative = of(NEGATIVE, Claims(crash="ValueError: boom"))
    assert (negative.crashes, negative.cause_right, negative.false_alarms) == (1, 0, 0)


def test_the_first_action_is_judged_for_our_cause_and_for_the_label():
    ours = replace(RIGHT, causes=("other_process",), first_action="stop-process")
    tally = of(LABEL, ours)
    assert (tally.first_action_right, tally.first_action_total) == (1, 1)
    assert (tally.first_fix_right, tally.first_fix_total) == (0, 1)


def test_a_finding_without_an_action_is_a_miss():
    tally = of(LABEL, replace(RIGHT, first_action=""))
    assert (tally.first_action_right, tally.first_action_total) == (0, 1)


@pytest.mark.parametrize(
    ("cause", "action", "good"),
    [
        ("activations", "micro-batch", True),
        ("activations", "stop-process", False),
        ("other_process", "stop-process", True),
        ("other_process", "micro-batch", False),
        ("optimizer_memory", "shard-optimizer", True),
        ("host_ram", "micro-batch", False),
        ("fragmentation", "", False),
        ("no such cause", "micro-batch", False),
    ],
)
def test_acceptable_actions(cause, action, good):
    assert acceptable(cause, action) is good


def test_every_cause_of_the_taxonomy_has_a_first_action():
    assert len(FIRST_ACTIONS) == 23
    assert all(prefix for prefixes in FIRST_ACTIONS.values() for prefix in prefixes)
