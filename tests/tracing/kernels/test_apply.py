from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.tracing.kernels.apply import plan
from oomph.tracing.kernels.rule import Effect, Give, Keep, Output, Take


def test_without_effects_results_come_in_order():
    assert plan([], 3).steps == (Output(0), Output(1), Output(2))


def test_what_is_not_given_back_goes_at_the_end_in_the_order_of_its_taking():
    effect = Effect((Take("a", 1), Output(), Take("b", 2)))
    assert plan([effect], 2).steps == (
        Take("0.a", 1),
        Output(0),
        Output(1),
        Take("0.b", 2),
        Give("0.a"),
        Give("0.b"),
    )


def test_results_that_no_step_names_come_last():
    assert plan([Effect((Take("a", 1), Output(1), Give("a")))], 3).steps == (
        Take("0.a", 1),
        Output(1),
        Give("0.a"),
        Output(0),
        Output(2),
    )


def test_two_effects_meet_at_the_results():
    before = Effect((Take("x", 8), Output(1), Output(0), Give("x")), uncertain_bytes=5)
    after = Effect((Output(), Keep("w", 32)), uncertain_bytes=7)
    joined = plan([before, after], 2)
    assert joined.steps == (Take("0.x", 8), Output(1), Output(0), Give("0.x"), Keep("1.w", 32))
    assert joined.uncertain_bytes == 12


def test_what_a_result_really_takes_is_passed_on():
    other = Effect((Output(), Keep("w", 1)))
    assert plan([other, Effect((Output(0), Output(1, bytes=0)))], 2).steps == (
        Output(0),
        Output(1, bytes=0),
        Keep("0.w", 1),
    )


def test_the_same_name_in_two_effects_is_two_things():
    one, two = Effect((Output(), Take("t", 1))), Effect((Output(), Take("t", 2)))
    assert plan([one, two], 1).steps == (
        Output(0),
        Take("0.t", 1),
        Take("1.t", 2),
        Give("0.t"),
        Give("1.t"),
    )


def test_nothing_of_zero_bytes_is_taken():
    assert plan([Effect((Output(), Take("t", 0), Keep("k", 0), Give("t")))], 1).steps == (Output(0),)


@pytest.mark.parametrize(
    "steps",
    [
        (Output(0), Output(0)),
        (Output(2),),
        (Output(-1),),
        (Give("a"),),
        (Take("a", 1), Take("a", 1)),
        (Take("a", 1), Give("a"), Give("a")),
    ],
)
def test_an_effect_that_contradicts_itself_is_refused(steps):
    with pytest.raises(ValueError, match="a rule"):
        plan([Effect(steps)], 2)


_EFFECT = st.lists(
    st.one_of(st.builds(Output, st.integers(0, 2)), st.builds(Keep, st.just("k"), st.integers(0, 3)))
)


@given(st.lists(_EFFECT, max_size=3))
def test_every_result_comes_once_and_nothing_before_what_it_stands_behind(effects):
    unique = [
        Effect(
            tuple(step for at, step in enumerate(steps) if isinstance(step, Keep) or step not in steps[:at])
        )
        for steps in effects
    ]
    steps = plan(unique, 3).steps
    assert sorted(step.index or 0 for step in steps if isinstance(step, Output)) == [0, 1, 2]
    for number, effect in enumerate(unique):
        seen: set[int] = set()
        mine = [
            at
            for at, step in enumerate(steps)
            if isinstance(step, Keep) and step.name.startswith(f"{number}.")
        ]
        for step in effect.steps:
            if isinstance(step, Output):
                seen.add(step.index or 0)
            elif step.bytes:
                at = mine.pop(0)
                assert seen <= {it.index for it in steps[:at] if isinstance(it, Output)}
