"""Each check: what passes, what fails, what cannot be told; and what lies just beside a threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.diagnose.verify.checks import CHECKS, NAMES
from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.run import verify
from oomph.diagnose.verify.settings import Amount, Settings, limit
from oomph.evidence.run.model import GpuSample, RunEnd
from oomph.phases import Phase
from oomph.probe.model import Gpu, Process
from tests.diagnose.verify.runs import CARD, GIB, MIB, Rank, failure, read


@pytest.fixture
def ask(tmp_path):
    """The one answer of a check for a run of these ranks."""

    def asked(check: str, *ranks: Rank, world: int | None = None, **settings) -> Answer:
        data = read(tmp_path, ranks or (Rank(),), world=world)
        found = verify(data, Settings(select=(check,), **settings))
        assert len(found.answers) == 1
        return found.answers[0]

    return asked


def test_names_are_stable_and_each_check_says_what_it_asks():
    assert NAMES == (
        "first-step",
        "headroom-first",
        "headroom",
        "limit",
        "retries",
        "growth",
        "evaluation",
        "ranks",
        "prediction",
    )
    assert all((type(check).__doc__ or "").endswith(".") for check in CHECKS)


def test_a_good_run_is_verified(tmp_path):
    found = verify(read(tmp_path, [Rank()]))
    assert {answer.check: answer.status for answer in found.answers} == {
        "first-step": Status.PASSED,
        "headroom-first": Status.PASSED,
        "headroom": Status.PASSED,
        "limit": Status.SKIPPED,
        "retries": Status.PASSED,
        "growth": Status.PASSED,
        "evaluation": Status.SKIPPED,
        "ranks": Status.SKIPPED,
        "prediction": Status.SKIPPED,
    }
    assert (found.verdict, found.exit_code) == (Status.PASSED, 0)


# --- first-step


def test_first_step_passes_and_counts(ask):
    answer = ask("first-step", Rank(0, steps=5), Rank(1, steps=4))
    assert (answer.status, answer.numbers["least_steps"]) == (Status.PASSED, 4)


def test_first_step_fails_for_who_ran_out_before(ask):
    answer = ask(
        "first-step", Rank(0), Rank(1, steps=0, outcome="oom", oom=failure(Phase.BACKWARD, 0, 70 * GIB))
    )
    assert (answer.status, answer.rank, answer.phase) == (Status.FAILED, 1, Phase.BACKWARD)


@pytest.mark.parametrize("outcome", ["killed", "running", "completed"])
def test_first_step_is_open_where_nothing_proves_it(ask, outcome):
    assert ask("first-step", Rank(steps=0, outcome=outcome)).status is Status.UNKNOWN


def test_first_step_is_open_for_a_recorder_that_sees_no_optimizer(tmp_path):
    rank = Rank(steps=0, outcome="exception")
    data = read(tmp_path / "a", [rank])
    assert verify(data, Settings(select=("first-step",))).answers[0].status is Status.FAILED

    class Blind(Rank):
        def written(self):
            records = super().written()
            end = records.pop()
            for step in range(3):
                self.phase(Phase.BACKWARD, step, GIB, GIB)
            return [*records, end]

    data = read(tmp_path / "b", [Blind(steps=0, outcome="exception")])
    assert verify(data, Settings(select=("first-step",))).answers[0].status is Status.UNKNOWN


def test_a_rank_without_records_leaves_the_first_step_open(ask):
    answer = ask("first-step", Rank(0), world=2)
    assert answer.status is Status.UNKNOWN
    assert "rank 1 left no records" in answer.text


# --- headroom before the first step: 80 GiB card, 1 GiB beside, 2 GiB cached


@pytest.mark.parametrize(
    ("loaded", "status"),
    [
        (69 * GIB, Status.PASSED),  # 80 - 1 - 71 = 8: exactly 10 %
        (69 * GIB + 1, Status.UNKNOWN),  # a byte less by what is reserved; 10 with the cache
        (71 * GIB, Status.UNKNOWN),  # 8 with the cache
        (71 * GIB + 1, Status.FAILED),
    ],
)
def test_headroom_before_the_first_step(ask, loaded, status):
    answer = ask("headroom-first", Rank(loaded=loaded))
    assert answer.status is status
    assert answer.numbers["wanted_bytes"] == 8 * GIB
    assert answer.numbers["left_by_allocated_bytes"] == CARD - GIB - loaded


def test_headroom_first_has_a_setting_of_its_own(ask, tmp_path):
    data = read(tmp_path / "x", [Rank(loaded=60 * GIB)])
    asked = Settings(select=("headroom-first",), headroom_first=Amount(size_bytes=20 * GIB))
    assert verify(data, asked).answers[0].status is Status.FAILED  # 19 GiB at best


def test_headroom_first_of_a_job_that_failed_while_it_loaded(ask):
    rank = Rank(steps=0, outcome="oom", oom=failure(Phase.LOAD, -1, 78 * GIB))
    assert ask("headroom-first", rank).status is Status.FAILED


def test_headroom_first_does_not_need_the_run_to_have_ended(ask):
    assert ask("headroom-first", Rank(outcome="killed")).status is Status.PASSED


# --- headroom at the peak


@pytest.mark.parametrize(
    ("peak", "status"),
    [
        (69 * GIB, Status.PASSED),
        (69 * GIB + 1, Status.UNKNOWN),
        (71 * GIB, Status.UNKNOWN),
        (71 * GIB + 1, Status.FAILED),
    ],
)
def test_headroom_at_the_peak(ask, peak, status):
    answer = ask("headroom", Rank(peaks={Phase.BACKWARD: peak}))
    assert answer.status is status
    assert answer.phase is Phase.BACKWARD


@pytest.mark.parametrize(
    ("counted", "status"),
    [("allocated", Status.PASSED), ("reserved", Status.FAILED), ("both", Status.UNKNOWN)],
)
def test_the_cache_counts_as_it_is_told(ask, counted, status):
    answer = ask("headroom", Rank(peaks={Phase.BACKWARD: 70 * GIB}), headroom_of=counted)
    assert answer.status is status


def test_headroom_needs_to_know_what_else_is_on_the_card(ask):
    answer = ask("headroom", Rank(free=False))
    assert answer.status is Status.UNKNOWN
    assert "was never read" in answer.text


def test_what_is_allocated_alone_can_prove_that_too_little_was_left(ask):
    assert ask("headroom", Rank(free=False, peaks={Phase.FORWARD: 73 * GIB})).status is Status.FAILED


def test_headroom_without_a_capacity(ask):
    answer = ask("headroom", Rank(free=False, capacity=None))
    assert answer.status is Status.UNKNOWN
    assert "has in all" in answer.text


def test_no_headroom_where_a_request_failed(ask):
    rank = Rank(steps=3, outcome="oom", oom=failure(Phase.BACKWARD, 3, 50 * GIB))
    answer = ask("headroom", rank)
    assert (answer.status, answer.phase) == (Status.FAILED, Phase.BACKWARD)


def test_a_search_for_a_batch_that_fits_is_no_failure(ask):
    """The tries filled the card; the steps that followed need 40 GiB."""
    assert ask("headroom", Rank(caught_first=78 * GIB)).status is Status.PASSED


@pytest.mark.parametrize("outcome", ["killed", "exception", "running"])
def test_headroom_of_a_run_that_did_not_end_is_open(ask, outcome):
    answer = ask("headroom", Rank(outcome=outcome))
    assert answer.status is Status.UNKNOWN
    assert "up to then" in answer.text


def test_headroom_of_a_run_that_did_not_end_fails_where_it_is_proved(ask):
    assert ask("headroom", Rank(outcome="killed", peaks={Phase.BACKWARD: 79 * GIB})).status is Status.FAILED


def test_headroom_decides_by_the_worst_rank(ask):
    answer = ask("headroom", Rank(0), Rank(1, peaks={Phase.OPTIMIZER: 75 * GIB}), Rank(2))
    assert (answer.status, answer.rank, answer.phase) == (Status.FAILED, 1, Phase.OPTIMIZER)


@pytest.mark.parametrize(
    ("free", "counted", "status"),
    [
        (9 * GIB, "both", Status.UNKNOWN),  # between two samples more may have been taken
        (7 * GIB, "both", Status.UNKNOWN),  # the cache counts as taken from outside
        (7 * GIB, "reserved", Status.FAILED),
        (9 * GIB, "reserved", Status.UNKNOWN),
    ],
)
def test_samples_from_outside_can_only_fail(tmp_path, free, counted, status):
    data = read(tmp_path, [])
    ours, other = Process(1, ours=True), Process(2)
    samples = tuple(
        GpuSample(
            1e9 + number,
            float(number),
            (
                Gpu(0, capacity_bytes=CARD, free_bytes=left, processes=(ours,)),
                Gpu(1, capacity_bytes=CARD, free_bytes=0, processes=(other,)),
            ),
        )
        for number, left in enumerate((20 * GIB, free, 15 * GIB))
    )
    data = replace(data, gpus={"node1": samples})
    (answer,) = verify(data, Settings(select=("headroom",), headroom_of=counted)).answers
    assert (answer.status, answer.numbers["free_bytes"]) == (status, free)


# --- limits


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("backward=42GiB", Status.PASSED),  # 40 allocated, 2 cached
        ("backward=41.999GiB", Status.FAILED),
        ("allocated:backward=40GiB", Status.PASSED),
        ("allocated:backward=39GiB", Status.FAILED),
        ("allocated:peak=40GiB", Status.PASSED),
        ("peak=41GiB", Status.FAILED),
        ("eval=1GiB", Status.UNKNOWN),  # none was recorded
    ],
)
def test_limits(ask, text, status):
    assert ask("limit", limits=(limit(text),)).status is status


def test_each_limit_is_answered(tmp_path):
    limits = (limit("backward=50GiB"), limit("allocated:forward=1GiB"))
    found = verify(read(tmp_path, [Rank()]), Settings(select=("limit",), limits=limits))
    assert [(each.name, each.status) for each in found.answers] == [
        ("limit[backward]", Status.PASSED),
        ("limit[allocated:forward]", Status.FAILED),
    ]


def test_what_a_failed_request_would_have_needed_counts(ask):
    """48 GiB allocated and 2 GiB asked for: more than 49, whatever the peaks say."""
    rank = Rank(steps=2, outcome="oom", oom=failure(Phase.BACKWARD, 2, 48 * GIB))
    answer = ask("limit", rank, limits=(limit("allocated:backward=49GiB"),))
    assert (answer.status, answer.numbers["peak_bytes"]) == (Status.FAILED, 50 * GIB)


def test_a_limit_on_a_run_that_died_is_open(ask):
    assert ask("limit", Rank(outcome="killed"), limits=(limit("backward=60GiB"),)).status is Status.UNKNOWN


def test_lost_records_leave_a_limit_open(ask):
    assert ask("limit", Rank(lost=3), limits=(limit("backward=60GiB"),)).status is Status.UNKNOWN


# --- retries


def test_retries(ask, tmp_path):
    assert ask("retries").status is Status.PASSED


def test_retries_fail_where_they_began(ask):
    answer = ask("retries", Rank(0), Rank(1, retries=lambda step: 3 if step >= 7 else 0))
    assert (answer.status, answer.rank) == (Status.FAILED, 1)
    assert "of step 7" in answer.text


def test_retries_of_a_run_that_died_fail_by_proof_only(ask, tmp_path):
    assert ask("retries", Rank(outcome="killed")).status is Status.UNKNOWN
    data = read(tmp_path / "b", [Rank(outcome="killed", retries=lambda _: 1)])
    assert verify(data, Settings(select=("retries",))).answers[0].status is Status.FAILED


def test_counters_that_could_not_be_read_are_no_zeros(ask):
    answer = ask("retries", Rank(missing="the device does not answer"))
    assert answer.status is Status.UNKNOWN
    assert "the device does not answer" in answer.text


# --- growth


def growing(per_step: int, start: int = 20 * GIB):
    return lambda step: start + per_step * step


def test_growth_that_is_steady_fails(ask):
    answer = ask("growth", Rank(steps=20, step_bytes=growing(10 * MIB)))
    assert answer.status is Status.FAILED
    assert {answer.numbers[name] for name in answer.numbers if name.startswith("per_step")} == {10 * MIB}


def test_the_first_two_steps_are_no_growth(ask):
    """Optimizer states come with the first step, workspaces with the second."""
    rank = Rank(steps=12, step_bytes=lambda step: (5 if step == 0 else 18 if step == 1 else 20) * GIB)
    assert ask("growth", rank).status is Status.PASSED


@pytest.mark.parametrize("at", [3, 6, 9, 15])
def test_one_jump_is_no_growth(ask, at):
    rank = Rank(steps=20, step_bytes=lambda step: 20 * GIB + (GIB if step >= at else 0))
    assert ask("growth", rank).status is not Status.FAILED


@pytest.mark.parametrize("steps", [12, 20, 40, 100])
def test_two_jumps_are_no_growth(ask, steps):
    rank = Rank(steps=steps, step_bytes=lambda step: (20 + (step > steps / 3) + (step > 2 * steps / 3)) * GIB)
    assert ask("growth", rank).status is not Status.FAILED


def test_a_leak_in_every_fifth_step_is_growth(ask):
    rank = Rank(steps=60, step_bytes=lambda step: 20 * GIB + step // 5 * 100 * MIB)
    assert ask("growth", rank).status is Status.FAILED


def test_what_goes_up_and_down_is_no_growth(ask):
    rank = Rank(steps=40, step_bytes=lambda step: 20 * GIB + (step * 7919 % 13) * 50 * MIB)
    assert ask("growth", rank).status in (Status.UNKNOWN, Status.PASSED)


def test_a_loss_that_is_kept_is_allowed_up_to_what_is_said(ask, tmp_path):
    assert ask("growth", Rank(step_bytes=growing(512))).status is Status.PASSED
    data = read(tmp_path / "b", [Rank(step_bytes=growing(512))])
    found = verify(data, Settings(select=("growth",), growth_bytes=100))
    assert found.answers[0].status is Status.FAILED


@pytest.mark.parametrize(("steps", "status"), [(9, Status.UNKNOWN), (10, Status.PASSED)])
def test_growth_needs_steps(ask, steps, status):
    assert ask("growth", Rank(steps=steps)).status is status


def test_growth_can_be_told_of_a_run_that_died(ask):
    assert ask("growth", Rank(steps=20, outcome="killed")).status is Status.PASSED


def test_a_job_that_was_started_again_counts_from_there(tmp_path):
    class Again(Rank):
        def written(self):
            first = super().written()[:-1]
            self.step_bytes = lambda _: 20 * GIB
            return [*first, *super().written()]

    # The first attempt ends at 23 GiB and the second begins at 20 GiB again.
    data = read(tmp_path, [Again(steps=12, step_bytes=growing(256 * MIB))])
    assert verify(data, Settings(select=("growth",))).answers[0].status is Status.PASSED


# --- evaluation


def test_an_evaluation_with_room(ask):
    answer = ask("evaluation", Rank(evaluation=50 * GIB))
    assert (answer.status, answer.phase) == (Status.PASSED, Phase.EVAL)
    assert answer.numbers["training_bytes"] == 40 * GIB


def test_an_evaluation_without_room(ask):
    assert ask("evaluation", Rank(evaluation=75 * GIB)).status is Status.FAILED


def test_an_evaluation_that_failed(ask):
    rank = Rank(steps=4, outcome="oom", oom=failure(Phase.EVAL, 3, 60 * GIB))
    answer = ask("evaluation", rank)
    assert (answer.status, answer.phase) == (Status.FAILED, Phase.EVAL)


def test_an_evaluation_that_was_asked_for_by_name_has_to_be_there(ask, tmp_path):
    assert ask("evaluation").status is Status.FAILED
    assert "evaluation" in {each.check for each in verify(read(tmp_path / "b", [Rank()])).of(Status.SKIPPED)}


# --- ranks


@pytest.mark.parametrize(
    ("least", "status"), [(36 * GIB, Status.PASSED), (36 * GIB - 1, Status.FAILED), (40 * GIB, Status.PASSED)]
)
def test_ranks_within_ten_percent(ask, least, status):
    answer = ask("ranks", Rank(0), Rank(1, peaks={Phase.BACKWARD: least}))
    assert answer.status is status
    assert (answer.numbers["most_bytes"], answer.numbers["least_bytes"]) == (40 * GIB, least)


def test_ranks_are_compared_over_the_steps_that_all_completed(ask):
    """Rank 1 died after three steps; what rank 0 did later is not held against it."""

    class Later(Rank):
        def written(self):
            records = super().written()
            self.phase(Phase.EVAL, 11, GIB, 70 * GIB)
            return [*records[:-1], self.records.pop(), records[-1]]

    answer = ask("ranks", Later(0), Rank(1, steps=3, outcome="killed"))
    assert answer.status is Status.PASSED
    assert "up to step 2" in answer.text


def test_ranks_without_a_common_step(ask):
    assert ask("ranks", Rank(0), Rank(1, steps=0, outcome="killed")).status is Status.UNKNOWN


def test_a_missing_rank_leaves_ranks_open(ask):
    assert ask("ranks", Rank(0), Rank(1), world=3).status is Status.UNKNOWN


def test_one_rank_has_nobody_to_be_compared_with(ask):
    assert ask("ranks").status is Status.SKIPPED


# --- the whole


def test_what_cannot_be_told_is_not_passed(tmp_path):
    found = verify(read(tmp_path, [Rank(outcome="killed")]))
    assert (found.verdict, found.exit_code) == (Status.UNKNOWN, 0)
    strict = verify(read(tmp_path / "b", [Rank(outcome="killed")]), Settings(strict=True))
    assert (strict.verdict, strict.exit_code) == (Status.UNKNOWN, 1)


def test_a_run_of_which_nothing_can_be_told_is_not_verified(tmp_path):
    data = read(tmp_path, [Rank(steps=0, outcome="killed", missing="nothing answers")])
    found = verify(data)
    assert (found.verdict, found.exit_code) == (Status.UNKNOWN, 1)
    assert found.of(Status.PASSED) == ()


def test_an_exit_of_the_command_is_no_check_of_its_own(tmp_path):
    """The command failed after training (a broken upload): every check is about memory."""
    data = read(tmp_path, [Rank()], end=RunEnd(1e9, 1))
    assert verify(data).verdict is Status.PASSED
