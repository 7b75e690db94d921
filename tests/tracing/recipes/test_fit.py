"""Sizes from numbers: the expression is known, and only its values are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.recipe.expression import RecipeError, name, number
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.grammar import parse
from oomph.tracing.recipes.fit import Fitter

NAMES = ("b", "s", "heads", "width")
RUNS = [
    dict(zip(NAMES, numbers, strict=True))
    for numbers in [
        (3, 1096, 10, 56),
        (5, 1384, 12, 40),
        (2, 1688, 28, 72),
        (7, 776, 14, 88),
        (4, 1048, 6, 104),
    ]
]
FITTER = Fitter(RUNS, NAMES)


def values(text: str) -> tuple[int, ...]:
    return tuple(parse(text).evaluate(run, FUNCTIONS) for run in RUNS)


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "4*b*s",
        "s - 1",
        "b*s + 1",
        "heads*width + 2*width",
        "1/2*width",
        "3*heads*width",
        "up(s, 32)",
        "up(s, 128)",
        "4*b*heads*s*width",
        "b*s - b",
    ],
)
def test_the_expression_comes_back(text):
    assert FITTER.number(values(text)) == parse(text)


@given(
    st.integers(1, 64),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.integers(-8, 8),
)
def test_products_and_sums_of_two(factor, names, others, more):
    first, second = number(factor), number(more)
    for each in names[:2]:
        first = first * name(each)
    for each in others:
        second = second * name(each)
    whole = first + second
    found = FITTER.number(tuple(whole.evaluate(run, {}) for run in RUNS))
    assert found == whole


def test_shapes():
    shapes = [(run["b"], run["heads"], run["s"], run["width"] // 2) for run in RUNS]
    assert FITTER.bytes_of(shapes, 2) == parse("b*heads*s*width")
    assert FITTER.bytes_of([(3,), (3, 4), (1,), (2,), (5,)], 4) is None


def test_what_fits_nothing_is_not_forced():
    assert FITTER.number((101, 57, 1009, 4001, 13)) is None


def test_few_runs_prove_nothing():
    with pytest.raises(RecipeError, match="too few"):
        Fitter(RUNS[:4], NAMES)
