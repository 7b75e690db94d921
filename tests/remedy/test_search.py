"""The search over changes, with a prediction that is arithmetic: what it may propose, and that nothing is wasted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.job.model import Batch, Checkpointing, Hardware, Job, Parallel, Precision
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.remedy.changes import ALLOWANCES
from oomph.remedy.choice import key_of
from oomph.remedy.pareto import dominates
from oomph.remedy.room import upper
from oomph.remedy.search import FitResult, fit
from tests.remedy.jobs import EIGHT, GIB, ONE, needs, plan_of


def searched(job: Job, capacity: int, allow: frozenset[str] = frozenset(), **sizes: int) -> FitResult:
    """A search with the made-up prediction, on a card of so many GiB."""

    def plan(each: Job, replay: bool) -> Plan:
        del replay
        return plan_of(each, capacity * GIB, needs(each, **sizes))

    return fit(
        job,
        headroom=0.0,
        allow=allow,
        predictor=lambda each: max(needs(each, **sizes).values()),
        planner=plan,
        most=3000,
    )


ALLOW = st.frozensets(st.sampled_from(("batch", "seq", "precision", "method")), max_size=2)
START = st.builds(
    lambda base, micro, steps, mode: replace(
        base,
        batch=Batch(micro=micro, sequence=2048, accumulation=steps),
        checkpointing=Checkpointing(mode=mode),
    ),
    st.sampled_from((ONE, EIGHT)),
    st.sampled_from((1, 2, 6, 8)),
    st.integers(1, 2),
    st.sampled_from(("none", "full")),
)


@settings(max_examples=25)
@given(START, st.integers(8, 120), ALLOW)
def test_nothing_is_proposed_that_is_not_allowed(job, capacity, allow):
    found = searched(job, capacity, allow)
    for choice in found.choices:
        for change in choice.changes:
            assert change.needs in ("", *allow)
            assert change.applies(job) is None or len(choice.changes) > 1
        if "batch" not in allow:
            assert samples(choice.job) == samples(job)
        if "seq" not in allow:
            assert choice.job.batch.sequence == job.batch.sequence
        if "method" not in allow:
            assert choice.job.method == job.method
        assert choice.job.hardware == job.hardware


def samples(job: Job) -> int:
    return job.batch.micro * job.batch.accumulation * job.parallel.data


@settings(max_examples=25)
@given(START, st.integers(8, 120), ALLOW)
def test_every_choice_fits_and_none_beats_another(job, capacity, allow):
    found = searched(job, capacity, allow)
    keys = [key_of(each) for each in found.choices]
    raw = [(each.upper_bytes, each.cost.per_token, each.fidelity, each.code_needed) for each in found.choices]
    assert not any(dominates(one, other) for one in raw for other in raw)
    for choice in found.choices:
        assert choice.upper_bytes <= capacity * GIB
        assert choice.peak_bytes == max(needs(choice.job).values())
        assert len({change.axis for change in choice.changes}) == len(choice.changes)
    assert not any(dominates(one, other) for one in keys for other in keys)
    assert [key[0] for key in keys] == sorted(key[0] for key in keys)


@settings(max_examples=15)
@given(START, st.integers(8, 120))
def test_no_choice_has_a_change_that_it_does_without(job, capacity):
    """Without any one of its changes a choice does not fit, is slower, or is no job that can be."""
    for choice in searched(job, capacity).choices:
        for left_out in choice.changes:
            smaller = job
            for change in choice.changes:
                if change is left_out:
                    continue
                if change.applies(smaller) is not None:
                    break
                smaller = change.apply(smaller)
            else:
                from oomph.remedy.costs import cost

                fits = upper(smaller, max(needs(smaller).values())) <= capacity * GIB
                assert not fits or cost(smaller).per_token > choice.cost.per_token


def test_a_job_that_fits_is_left_alone():
    found = searched(ONE, 400)
    assert found.fits
    assert not found.choices
    assert found.tried == 0


def test_a_load_that_does_not_fit_is_not_answered_with_a_smaller_batch():
    """150 GiB of weights on each of 8 cards of 80: what spreads them is of use, and is enough here."""
    small = replace(EIGHT, batch=Batch(micro=8, sequence=2048), checkpointing=Checkpointing(mode="full"))
    found = searched(small, 80, load=150, state=8, activations=20, logits=4)
    assert found.failing[0] is Phase.LOAD
    assert found.choices
    for choice in found.choices:
        codes = {change.code for change in choice.changes}
        assert codes & {"shard-more", "hybrid-shard"}
        assert "micro-batch" not in codes


def test_nothing_that_shrinks_with_the_batch_is_tried_where_only_loading_fails():
    """One card, weights alone too large: without allowance nothing helps, and it says what would."""
    job = replace(ONE, batch=Batch(micro=1, sequence=128))

    def sizes(each: Job) -> dict[Phase, int]:
        half = 1 if each.precision.weights == "fp32" else 2
        return {Phase.LOAD: 100 * GIB // half, Phase.FORWARD: 10 * GIB}

    looked: list[Job] = []

    def peak(each: Job) -> int:
        looked.append(each)
        return max(sizes(each).values())

    def plan(each: Job, replay: bool) -> Plan:
        del replay
        return plan_of(each, 80 * GIB, sizes(each))

    found = fit(job, 0.0, predictor=peak, planner=plan)
    assert found.failing == (Phase.LOAD,)
    assert not found.choices
    assert all(each.batch == job.batch for each in looked)
    assert {change.code for change in found.not_allowed} >= {"qlora", "lower-dtype"}
    allowed = fit(job, 0.0, {"precision"}, predictor=peak, planner=plan)
    assert [[change.code for change in each.changes] for each in allowed.choices] == [["lower-dtype"]]


def test_the_cheapest_comes_first():
    """126 GiB of 100: less accumulation-free work first. Halving the micro-batch frees (80 + 40) / 2 = 60 GiB and costs
    next to nothing; checkpointing frees 72 and costs a third of the forward."""
    job = replace(ONE, precision=Precision(weights="bf16", compute="bf16"))
    found = searched(job, 100, state=10, activations=80, logits=40)
    assert found.choices[0].cost.per_token <= 1.02 * min(each.cost.per_token for each in found.choices)
    assert found.base_cost is not None
    assert all("checkpointing" not in {change.code for change in each.changes} for each in found.choices[:1])


def test_what_cannot_fit_says_how_near_it_came():
    found = searched(ONE, 1)
    assert not found.choices
    assert found.nearest is not None
    assert found.nearest.upper_bytes > 1 * GIB
    assert found.nearest.upper_bytes <= upper(ONE, max(needs(ONE).values()))


def test_a_verdict_after_playing_outweighs_the_search():
    """What the allocator does not fit is not a choice."""

    def plan(each: Job, replay: bool) -> Plan:
        made = plan_of(each, 100 * GIB, needs(each))
        return made if not replay else plan_of(each, 1, needs(each))

    found = fit(ONE, 0.0, predictor=lambda each: max(needs(each).values()), planner=plan, most=500)
    assert all(choice.plan is None for choice in found.choices)


@pytest.mark.parametrize("headroom", [1.0, -0.1, 7.0])
def test_a_headroom_that_leaves_nothing_is_refused(headroom):
    with pytest.raises(UsageError, match="headroom"):
        fit(ONE, headroom, predictor=lambda _: 1, planner=lambda job, _: plan_of(job, GIB, needs(job)))


def test_unknown_words_of_allow_are_refused():
    with pytest.raises(UsageError, match=", ".join(ALLOWANCES)):
        fit(
            ONE,
            allow={"everything"},
            predictor=lambda _: 1,
            planner=lambda job, _: plan_of(job, GIB, needs(job)),
        )


def test_without_a_capacity_nothing_is_searched():
    def plan(job: Job, replay: bool) -> Plan:
        del replay
        return replace_capacity(plan_of(job, GIB, needs(job)))

    found = fit(ONE, predictor=lambda _: 1, planner=plan)
    assert found.room_bytes is None
    assert not found.choices


def replace_capacity(plan: Plan) -> Plan:
    import dataclasses

    return dataclasses.replace(plan, capacity_bytes=None)


def test_headroom_is_left_free():
    """What fits in 100 GiB with a tenth left free fits in 90."""
    make: Callable[[Job, bool], Plan] = lambda job, _: plan_of(job, 100 * GIB, needs(job))  # noqa: E731
    found = fit(ONE, 0.1, predictor=lambda each: max(needs(each).values()), planner=make, most=500)
    assert found.room_bytes == 90 * GIB
    assert all(choice.upper_bytes <= 90 * GIB for choice in found.choices)


def test_parallel_jobs_are_spread():
    """40 GiB of states on 8 ranks: sharding alone is enough, and it is among the choices."""
    job = replace(EIGHT, parallel=Parallel(strategy="ddp", data=8), batch=Batch(micro=1, sequence=2048))
    found = searched(job, 30)
    assert any({change.axis for change in each.changes} == {"sharding"} for each in found.choices)


def test_another_gpu_has_its_own_room():
    """What does not fit in 80 GB fits in the 141 GB of an H200, where that is allowed."""
    job = replace(ONE, batch=Batch(micro=1, sequence=128), hardware=Hardware(gpu="a100-80gb"))

    def sizes(each: Job) -> dict[Phase, int]:
        del each
        return {Phase.LOAD: 100 * GIB}

    room = 70 * GIB
    found = fit(
        job,
        0.0,
        {"machine"},
        predictor=lambda each: max(sizes(each).values()),
        planner=lambda each, _: plan_of(
            each, room if each.hardware.gpu == "a100-80gb" else 140 * GIB, sizes(each)
        ),
    )
    assert [[change.code for change in each.changes] for each in found.choices] == [["other-gpu"]]
    assert found.choices[0].job.hardware.gpu == "h200"
