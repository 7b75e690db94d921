"""The check `prediction`: which side of an interval proves what, and when."""

from __future__ import annotations

import pytest

from oomph.diagnose.verify.model import Status
from oomph.diagnose.verify.run import verify
from oomph.diagnose.verify.settings import Settings
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import Outside, PhasePeak, Plan, RankPlan
from tests.diagnose.verify.runs import GIB, Rank, failure, read


def peak(phase: Phase, size: int) -> PhasePeak:
    return PhasePeak(phase, size, size - GIB, size + GIB)


def plan_of(*kinds: dict[Phase, int], **more) -> Plan:
    """Kinds of ranks that begin at ranks 0, 1, ..."""
    ranks = tuple(
        RankPlan(f"rank {number}", number, {phase: peak(phase, size) for phase, size in kind.items()}, 0, Outside(0, 0))
        for number, kind in enumerate(kinds)
    )  # fmt: skip
    return Plan(Job(), ranks, None, None, None, **more)


PLAN = plan_of({Phase.LOAD: 10 * GIB, Phase.BACKWARD: 40 * GIB, Phase.SAVE: 20 * GIB})


def asked(tmp_path, *ranks: Rank, plan: Plan = PLAN, **settings) -> dict[str, Status]:
    found = verify(read(tmp_path, ranks), Settings(select=("prediction",), **settings), plan)
    return {answer.subject: answer.status for answer in found.answers}


@pytest.mark.parametrize(
    ("size", "status"),
    [
        (41 * GIB, Status.PASSED),
        (41 * GIB + 1, Status.FAILED),
        (39 * GIB, Status.PASSED),
        (39 * GIB - 1, Status.FAILED),
    ],
)
def test_the_ends_of_the_interval(tmp_path, size, status):
    found = asked(tmp_path, Rank(peaks={Phase.BACKWARD: size}))
    assert found == {"load": Status.PASSED, "backward": status, "save": Status.SKIPPED}


@pytest.mark.parametrize(("steps", "status"), [(1, Status.UNKNOWN), (2, Status.FAILED)])
def test_below_is_proved_by_a_second_step(tmp_path, steps, status):
    assert asked(tmp_path, Rank(steps=steps, peaks={Phase.BACKWARD: 30 * GIB}))["backward"] is status


def test_a_run_that_died_proves_what_is_above_only(tmp_path):
    above = Rank(outcome="killed", peaks={Phase.BACKWARD: 50 * GIB})
    assert asked(tmp_path / "a", above)["backward"] is Status.FAILED
    within = Rank(outcome="killed", peaks={Phase.BACKWARD: 40 * GIB})
    assert asked(tmp_path / "b", within)["backward"] is Status.UNKNOWN
    below = Rank(outcome="killed", peaks={Phase.BACKWARD: 30 * GIB})
    found = asked(tmp_path / "c", below)
    assert found["backward"] is Status.UNKNOWN
    assert found["save"] is Status.UNKNOWN  # it may have been on its way there


def test_what_lies_behind_a_run_that_died_is_judged(tmp_path):
    rank = Rank(outcome="killed", loaded=5 * GIB, peaks={Phase.BACKWARD: 40 * GIB})
    assert asked(tmp_path, rank)["load"] is Status.FAILED


def test_a_request_that_failed_above_the_interval(tmp_path):
    rank = Rank(
        steps=2, outcome="oom", peaks={Phase.BACKWARD: 40 * GIB}, oom=failure(Phase.BACKWARD, 2, 40 * GIB)
    )
    assert asked(tmp_path, rank)["backward"] is Status.FAILED  # 42 GiB were needed


def test_each_rank_against_its_own_kind(tmp_path):
    plan = plan_of({Phase.BACKWARD: 40 * GIB}, {Phase.BACKWARD: 20 * GIB})
    ranks = [Rank(0, peaks={Phase.BACKWARD: 40 * GIB}), Rank(1, peaks={Phase.BACKWARD: 20 * GIB})]
    assert asked(tmp_path / "a", *ranks, plan=plan) == {"backward": Status.PASSED}
    ranks[1].peaks = {Phase.BACKWARD: 40 * GIB}
    assert asked(tmp_path / "b", *ranks, plan=plan) == {"backward": Status.FAILED}


def test_a_job_that_cannot_be_predicted_is_open(tmp_path):
    found = verify(
        read(tmp_path, [Rank()]), Settings(select=("prediction",)), plan_of(unsupported=("a new optimizer",))
    )
    assert [(each.status, "a new optimizer" in each.text) for each in found.answers] == [
        (Status.UNKNOWN, True)
    ]
