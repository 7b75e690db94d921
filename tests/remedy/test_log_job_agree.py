"""A plan's peak held against what was allocated at a failure: both sides of every threshold, by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.diagnose.case import Case
from oomph.phases import Phase
from oomph.predict.model import Outside, PhasePeak, Plan, RankPlan
from oomph.remedy.agree import agreement, needed_bytes, room_bytes
from tests.remedy.cases import case_of
from tests.remedy.jobs import GIB, ONE

MIB = 2**20


def message(allocated: str = "21.00 GiB", cached: str = "0.50 GiB", process: str = "22.00 GiB") -> str:
    """2 GiB were asked for, 1 GiB of 24 GiB was free."""
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "24.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has "
        f"{process} memory in use. Of the allocated memory {allocated} is allocated by PyTorch, and "
        f"{cached} is reserved by PyTorch but unallocated."
    )


def plan_with(low: float, high: float, outside: float = 1.0, phase: Phase = Phase.FORWARD) -> Plan:
    """A plan with this interval, in GiB, in one phase."""
    peak = PhasePeak(phase, int((low + high) / 2 * GIB), int(low * GIB), int(high * GIB))
    rank = RankPlan("the only rank", 0, {phase: peak}, 0, Outside(0, int(outside * GIB)))
    return Plan(ONE, (rank,), None, None, None)


def after_steps(case: Case) -> Case:
    return replace(case, phase_verdict=replace(case.phase_verdict, first_step=False))


def test_what_was_needed_is_what_was_allocated_and_the_request():
    """21 + 2 GiB; PyTorch could have what it had reserved and what was free: 21 + 0.5 + 1 GiB."""
    case = case_of(message())
    assert needed_bytes(case) == 23 * GIB
    assert room_bytes(case) == 22.5 * GIB


def test_what_is_not_printed_is_not_compared():
    case = case_of("RuntimeError: CUDA error: out of memory")
    assert needed_bytes(case) is None
    assert room_bytes(case) is None
    found = agreement(case, plan_with(10, 11))
    assert (found.verdict, found.needed_bytes, found.doubtful) == ("unknown", None, False)
    assert "does not say how much was allocated" in found.says


def test_a_phase_that_is_not_planned_is_not_compared():
    for phase, words in ((Phase.UNKNOWN, "an unknown phase"), (Phase.SAVE, "the phase save")):
        found = agreement(case_of(message(), phase=phase), plan_with(10, 11))
        assert found.verdict == "unknown"
        assert words in found.says


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (22.9, 23.1, "agrees"),
        (22.0, 22.999, "agrees"),  # less than the rounding of a request to whole 2 MiB
        (22.0, 22.97, "more"),
        (23.02, 24.0, "on_the_way"),  # the rounding of 21.00 GiB and 2.00 GiB is 10 MiB
        (23.001, 24.0, "agrees"),
        (30.0, 32.0, "on_the_way"),
    ],
)
def test_where_what_was_needed_lies(low, high, verdict):
    found = agreement(case_of(message()), plan_with(low, high))
    assert found.verdict == verdict
    assert found.doubtful is (verdict == "more")
    assert (found.low_bytes, found.high_bytes) == (int(low * GIB), int(high * GIB))


def test_the_sentences_say_both_numbers_and_by_how_much():
    agrees = agreement(case_of(message()), plan_with(22, 24, outside=2)).says
    assert agrees == (
        "The plan agrees with the log: predicted 23.00 GiB (22.00 GiB to 24.00 GiB) in forward, the log has 23.00 GiB "
        "(allocated, and the request that failed)."
    )
    more = agreement(case_of(message()), plan_with(10, 20)).says
    assert "3.00 GiB more than the plan allows" in more
    assert "grows over the steps" in more
    assert "7.00 GiB before" in agreement(case_of(message()), plan_with(30, 32)).says


def test_steps_that_were_finished_contradict_a_plan_that_does_not_fit():
    """22.5 GiB could be had: a phase that needs 30 had not been finished before."""
    case = after_steps(case_of(message()))
    found = agreement(case, plan_with(30, 32))
    assert (found.verdict, found.doubtful) == ("less", True)
    assert "7.00 GiB less than the plan" in found.says
    assert "Steps had been finished" in found.says


def test_a_phase_that_fits_by_the_plan_and_failed():
    """15 + 2 GiB needed where the plan has 18 to 20; 15 + 6.5 + 1 = 22.5 GiB could be had."""
    case = case_of(message(allocated="15.00 GiB", cached="6.50 GiB"))
    found = agreement(case, plan_with(18, 20))
    assert (found.verdict, found.doubtful) == ("less", True)
    assert "By the plan the phase fits" in found.says
    assert agreement(case, plan_with(18, 23)).verdict == "on_the_way"


def test_a_request_that_failed_in_the_loss_was_near_the_peak_of_forward():
    """23 GiB were needed, and the loss may ask for 3 x 2 GiB more: a plan of 30 GiB has more than that."""
    frames = [
        ("/w/train.py", "step", "model(x)"),
        ("torch/nn/functional.py", "cross_entropy", "torch._C._nn.cross_entropy_loss("),
    ]
    case = case_of(message(), frames=frames)

    def at_the_loss(low: float, where: str = "output layer and loss") -> str:
        made = plan_with(low, low + 1)
        peaks = {phase: replace(peak, where=where) for phase, peak in made.worst.phases.items()}
        return agreement(case, replace(made, ranks=(replace(made.worst, phases=peaks),))).verdict

    assert at_the_loss(30) == "less"
    assert at_the_loss(28.9) == "on_the_way"
    assert at_the_loss(30, "the last block") == "on_the_way"
    assert agreement(case_of(message()), plan_with(30, 31)).verdict == "on_the_way"


def test_a_neighbour_is_told_of_where_more_is_taken_than_the_process_takes():
    """24 - 1 free - 21.5 reserved = 1.5 GiB beside PyTorch, of which the process has 22 - 21.5 = 0.5."""
    assert "another process" not in agreement(case_of(message()), plan_with(22, 24, outside=1.52)).says
    assert "usually another process" in agreement(case_of(message()), plan_with(22, 24, outside=1.4)).says
    own = message(process="22.99 GiB")
    assert "another library" in agreement(case_of(own), plan_with(22, 24, outside=1.0)).says
