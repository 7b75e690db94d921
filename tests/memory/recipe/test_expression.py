"""Expressions: text and back, exact whole numbers, and sentences for what is none."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.recipe.expression import Expression, RecipeError, call, name, number
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.grammar import parse

NAMES = ("b", "s", "hidden", "layers", "x1")
WHERE = {"b": 2, "s": 7, "hidden": 12, "layers": 3, "x1": 5}

constants = st.fractions(-50, 50, max_denominator=12).map(number)
atoms = st.one_of(constants, st.sampled_from(NAMES).map(name))


def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda pair: pair[0] + pair[1]),
        pairs.map(lambda pair: pair[0] - pair[1]),
        pairs.map(lambda pair: pair[0] * pair[1]),
        pairs.map(lambda pair: call("max", *pair)),
        pairs.map(lambda pair: call("shape", (pair[0], pair[1]), pair[0])),
    )


expressions = st.recursive(atoms, grown, max_leaves=6)


@given(expressions)
def test_what_is_printed_reads_as_the_same(expression):
    assert parse(str(expression)) == expression


def plain(expression: Expression) -> Fraction:
    """The value by Python's own arithmetic, for polynomials alone."""
    total = Fraction(0)
    for coefficient, factors in expression.terms:
        for factor in factors:
            coefficient *= WHERE[str(factor)]
        total += coefficient
    return total


@given(
    st.recursive(atoms, lambda inner: st.tuples(inner, inner).map(lambda p: p[0] * p[1] + p[0]), max_leaves=5)
)
def test_values_are_exact_or_refused(expression):
    value = plain(expression)
    if value.denominator == 1:
        assert expression.evaluate(WHERE, FUNCTIONS) == value
    else:
        with pytest.raises(RecipeError, match="no whole number"):
            expression.evaluate(WHERE, FUNCTIONS)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**6))
def test_sums_and_products_are_pythons(first, second, third):
    where = {"a": first, "b": second, "c": third}
    text = "2*a*b - 3*(a + c)*c + b*b"
    assert parse(text).evaluate(where, {}) == 2 * first * second - 3 * (first + third) * third + second**2


def test_equal_polynomials_are_equal_and_print_the_same():
    assert parse("(a + b)*(a - b)") == parse("a*a - b*b")
    assert str(parse("s*4*b + b*s*2")) == "6*b*s"
    assert parse("a - a") == number(0)
    assert str(parse("0*a")) == "0"


def test_functions():
    assert parse("ceil(10, 4) + up(10, 4)").evaluate({}, FUNCTIONS) == 3 + 12
    assert parse("above(b*s, 13, 100) + above(b*s, 14, 1000)").evaluate(WHERE, FUNCTIONS) == 100
    assert parse("max(b, s) - min(b, s, 1)").evaluate(WHERE, FUNCTIONS) == 6


def test_a_large_model_is_exact():
    # Logits of 64 sequences of 131072 tokens over 256000 words in fp32: more than a double can count by ones.
    size = parse("4*b*s*vocab + 1").evaluate({"b": 64, "s": 131072, "vocab": 256000}, {})
    assert size == 4 * 64 * 131072 * 256000 + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "was expected"),
        ("2*", "was expected"),
        ("2 3", "nothing more"),
        ("b/s", "only a whole number divides"),
        ("b/0", "divides by zero"),
        ("(b", "'[)]' was expected"),
        ("b ** 2", "was expected"),
        ("__import__('os')", "no part of an expression"),
        ("b; s", "no part of an expression"),
        ("(" * 50 + "b" + ")" * 50, "too many brackets"),
        ("b" * 3000, "characters"),
        ("9" * 30, "digits"),
        ("[b]", "was expected"),
        ("(a+b+c+d+e+f)*" * 8 + "a", "terms|factors"),
    ],
)
def test_what_is_no_expression_is_refused_with_a_sentence(text, says):
    with pytest.raises(RecipeError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b*unknown", "'unknown' is not given"),
        ("open(b)", "'open' is no function"),
        ("up(b, 0)", "cannot be computed"),
        ("up(b)", "cannot be computed"),
        ("ceil([b], 2)", "cannot be computed"),
        ("1/4*b", "no whole number for b = 2"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_a_sentence(text, says):
    with pytest.raises(RecipeError, match=says):
        parse(text).evaluate(WHERE, FUNCTIONS)
