"""What repeats with the layers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.recipe.expression import RecipeError
from oomph.tracing.recipes.loops import Repeat, Single, expand, find


def expanded(pieces, long, layers):
    return [long[place] for _, place in expand(pieces, layers)]


def made(parts, layers):
    """Tokens of parts: a text once, a pair (text, more) `layers + more` times."""
    return [
        token for part in parts for token in (part if isinstance(part, str) else part[0] * (layers + part[1]))
    ]


def test_one_loop_with_a_beginning_and_an_end():
    parts = ["xy", ("abc", 0), "z"]
    pieces = find(made(parts, 3), made(parts, 4), 3)
    assert expanded(pieces, made(parts, 4), 7) == made(parts, 7)
    assert [piece for piece in pieces if isinstance(piece, Repeat)] == [Repeat(2, 3, 0)]
    assert [piece.place for piece in pieces if isinstance(piece, Single)] == [0, 1, 14]


@pytest.mark.parametrize(
    "parts",
    [
        [("ab", 0), ("ba", 0)],  # the second begins as the first ends
        [("abab", 0), "ab"],  # the end looks like a layer
        ["aab", ("aab", -1), "aac"],  # the first layer is special
        [("ab", -2), "cd", ("dc", 0), ("e", 0), ("f", 0)],
        ["x"],
        [("aaab", 0), "c", ("aab", 0), "d", ("ab", 0)],
        [("a", 0)],
    ],
)
def test_what_is_found_holds_for_any_number_of_layers(parts):
    pieces = find(made(parts, 3), made(parts, 4), 3)
    for layers in (2, 3, 4, 5, 32):
        assert expanded(pieces, made(parts, 4), layers) == made(parts, layers)


@given(
    st.lists(
        st.one_of(
            st.text("abcdef", min_size=1, max_size=6),
            st.tuples(st.text("uvwxyz", min_size=1, max_size=6), st.integers(-1, 0)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_loops_between_other_events(parts):
    # Loops and what is between them have their own letters, and a mark stands between, so that there is one answer.
    marked = [each for number, part in enumerate(parts) for each in (part, str(number))]
    pieces = find(made(marked, 3), made(marked, 4), 3)
    assert expanded(pieces, made(marked, 4), 9) == made(marked, 9)


def test_other_differences_are_refused():
    with pytest.raises(RecipeError, match="by more than repetitions"):
        find(list("abab"), list("abcab"), 2)
