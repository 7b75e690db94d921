"""What a step is predicted to free beside what is missing, and which step comes first. The plan is made up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.diagnose.planned import Agreement
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.remedy import predicted
from oomph.remedy.actions import action_for
from oomph.remedy.advise import advise
from oomph.remedy.agree import agreement
from oomph.remedy.predicted import Beside
from tests.remedy.cases import case_of, finding_of
from tests.remedy.jobs import GIB, ONE, needs, plan_of

AGREES = Agreement("agrees", "")
DISAGREES = Agreement("more", "")
CODES = ("micro-batch", "checkpointing", "chunked-loss", "shorter-sequence")


def message(free: str = "1.00 GiB", asked: str = "3.00 GiB", reserved: str = "160.00 GiB") -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of "
        f"192.00 GiB of which {free} is free. Including non-PyTorch memory, this process has 161.00 GiB "
        f"memory in use. Of the allocated memory {reserved} is allocated by PyTorch, and 0 bytes is reserved "
        "by PyTorch but unallocated."
    )


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """`needs` of tests.remedy.jobs: forward is 2 + 40 + activations 80 + logits 40 GiB of a micro-batch of 8."""

    def plan(job: Job, replay: bool = True) -> Plan:
        assert not replay
        return plan_of(job, 161 * GIB, needs(job))

    monkeypatch.setattr(predicted, "plan", plan)


def beside(
    job: Job = ONE, phase: Phase = Phase.FORWARD, agreed: Agreement = AGREES, **numbers: str
) -> Beside:
    case = case_of(message(**numbers), phase=phase, facts={"batch_size": 8, "sequence_length": 2048})
    return Beside(case, job, plan_of(job, 161 * GIB, needs(job)), agreed, (), ())


def test_a_half_micro_batch_frees_half_of_what_grows_with_it():
    """8 -> 4: half of 80 + 40 GiB; 3 - 1 GiB is missing; 160 + 1 GiB could be had, and 102 is needed."""
    saving = beside().saving("micro-batch")
    assert saving is not None
    assert (saving.frees_bytes, saving.missing_bytes, saving.enough) == (60 * GIB, 2 * GIB, True)
    assert saving.peak_bytes == (2 + 40 + 60) * GIB
    assert saving.says == (
        "Predicted to free 60.00 GiB in forward (micro-batch 4 with accumulation); 2.00 GiB is missing: enough, the "
        "changed job peaks at 102.00 GiB in forward, of the 161.00 GiB that PyTorch could have."
    )


def test_enough_for_the_request_is_not_enough_for_the_job():
    """60 of the 2 GiB are freed, but 101 GiB could be had, and 102 is needed."""
    saving = beside(reserved="100.00 GiB").saving("micro-batch")
    assert saving is not None
    assert saving.enough is False
    assert "enough for this request but not for the job" in saving.says


def test_less_than_what_is_missing_is_not_enough():
    saving = beside(asked="71.00 GiB").saving("micro-batch")  # 71 - 1 = 70 GiB missing
    assert saving is not None
    assert (saving.enough, saving.missing_bytes) == (False, 70 * GIB)
    assert saving.says.endswith("70.00 GiB is missing: not enough.")


def test_the_phase_decides_what_is_freed():
    saving = beside(phase=Phase.OPTIMIZER).saving("micro-batch")
    assert saving is not None
    assert (saving.frees_bytes, saving.enough) == (0, False)
    assert saving.says.startswith("Predicted to free nothing in optimizer (micro-batch 4 with accumulation)")
    load = beside(phase=Phase.LOAD).saving("checkpointing")
    assert load is not None
    assert load.frees_nothing


def test_a_change_that_alters_nothing_in_the_plan_is_not_predicted(monkeypatch):
    """It is made for the phase, and no phase has other bytes: the plan may not model it."""
    one = beside()
    monkeypatch.setattr(predicted, "plan", lambda job, replay: plan_of(job, 161 * GIB, needs(ONE)))
    saving = one.saving("chunked-loss")
    assert saving is not None
    assert (saving.frees_bytes, saving.enough, saving.frees_nothing) == (None, None, False)
    assert saving.says.startswith("Not predicted: the plan has the same bytes")
    in_the_step = beside(phase=Phase.OPTIMIZER).saving("chunked-loss")  # which is made for other phases
    assert in_the_step is not None
    assert in_the_step.frees_nothing


def test_what_the_job_has_already_frees_nothing():
    has = replace(ONE, batch=replace(ONE.batch, micro=1))
    saving = beside(has).saving("micro-batch")
    assert saving is not None
    assert (saving.frees_bytes, saving.says) == (
        0,
        "Predicted to free nothing: the micro-batch is 1 already.",
    )
    full = replace(ONE, checkpointing=replace(ONE.checkpointing, mode="full"))
    already = beside(full).saving("checkpointing")
    assert already is not None
    assert already.frees_nothing


def test_of_a_phase_that_is_not_planned_nothing_is_predicted():
    assert beside(phase=Phase.EVAL).saving("micro-batch") is None
    unknown = beside(phase=Phase.UNKNOWN).saving("micro-batch")
    assert unknown is not None
    assert "in forward, the highest phase (micro-batch 4" in unknown.says


def test_where_what_was_free_would_do_nothing_is_said_to_be_missing():
    saving = beside(free="5.00 GiB").saving("micro-batch")
    assert saving is not None
    assert saving.says == "Predicted to free 60.00 GiB in forward (micro-batch 4 with accumulation)."


@pytest.mark.parametrize("code", ["stop-process", "expandable-segments", "meta-load", "collect-snapshot"])
def test_what_allocated_bytes_do_not_show_is_not_predicted(code):
    assert beside().saving(code) is None


def test_savings_are_doubtful_where_plan_and_log_disagree():
    saving = beside(agreed=DISAGREES).saving("micro-batch")
    assert saving is not None
    assert (saving.doubtful, saving.enough) == (True, None)
    assert saving.says.endswith("2.00 GiB is missing. Doubtful, since plan and log disagree.")


def order(one: Beside) -> list[str]:
    actions = [action for code in CODES if (action := action_for(code)) is not None]
    return [action.code for action in one.ordered(actions)]


def test_the_order_stays_but_what_frees_nothing_is_not_first():
    assert order(beside()) == list(CODES)
    one = replace(ONE, batch=replace(ONE.batch, micro=1))
    assert order(beside(one)) == ["checkpointing", "micro-batch", "chunked-loss", "shorter-sequence"]
    full = replace(one, checkpointing=replace(ONE.checkpointing, mode="full"))
    assert order(beside(full)) == ["chunked-loss", "micro-batch", "checkpointing", "shorter-sequence"]


def test_the_order_stays_where_the_plan_says_nothing_reliable():
    one = replace(ONE, batch=replace(ONE.batch, micro=1))
    assert order(beside(one, agreed=DISAGREES)) == list(CODES)
    assert order(beside(one, phase=Phase.UNKNOWN)) == list(CODES)
    assert order(beside(phase=Phase.OPTIMIZER)) == list(CODES)  # none of them frees anything there


def test_the_advice_has_what_each_step_is_predicted_to_free():
    one = beside()
    finding = finding_of("activations", *CODES)
    advice = advise(one.case, [finding], beside=one)
    plain = advise(one.case, [finding])
    assert [advice.first.code, *(step.code for step in advice.then)] == [
        plain.first.code,
        *(step.code for step in plain.then),
    ]
    assert advice.first.predicted == one.saving(advice.first.code)
    assert all(step.predicted is not None for step in advice.then)
    assert plain.first.predicted is None


def test_another_first_step_is_a_whole_one():
    """The step that moved up has its outcomes and says how much is missing, as a first step does."""
    one = beside(replace(ONE, batch=replace(ONE.batch, micro=1)))
    advice = advise(one.case, [finding_of("activations", *CODES)], beside=one)
    assert advice.first.code == "checkpointing"
    assert "2.00 GiB" in advice.first.text
    assert advice.then[0].code == "micro-batch"


def test_agreement_is_held_against_the_failing_phase():
    """160 + 3 GiB were needed, 162 are predicted without any slack: rounding of a request is 2 MiB at most."""
    one = beside()
    assert agreement(one.case, one.plan).verdict == "more"
    assert agreement(beside(reserved="159.00 GiB").case, one.plan).verdict == "agrees"
