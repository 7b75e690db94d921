"""The search for the largest value that fits, without any script."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oomph.cli.trace_largest import MOST, search
from oomph.report.trace.wire import Largest
from oomph.report.trace.words import largest_words


def below(limit: int) -> Callable[[int], bool | None]:
    return lambda value: value <= limit


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 31, 32, 63])
def test_small_limits_are_found_exactly(limit: int) -> None:
    value, fails_at, tried = search(below(limit))
    assert (value, fails_at) == (limit, limit + 1)
    assert all(fits is (each <= limit) for each, fits in tried.items())


@pytest.mark.parametrize("limit", [100, 3040, 123_457])
def test_large_limits_are_found_to_a_thirty_second(limit: int) -> None:
    value, fails_at, tried = search(below(limit))
    assert value is not None
    assert fails_at is not None
    assert value <= limit < fails_at
    assert fails_at - value <= max(1, value // 32)
    # Doublings, and halvings of the last one down to a thirty-second.
    assert len(tried) <= limit.bit_length() + 1 + 6


def test_nothing_fits() -> None:
    assert search(below(0)) == (None, 1, {1: False})


def test_everything_fits() -> None:
    value, fails_at, _ = search(lambda _: True)
    assert (value, fails_at) == (MOST, None)


def test_a_value_that_the_script_cannot_take_is_the_limit() -> None:
    value, fails_at, tried = search(lambda value: None if value > 5 else True)
    assert (value, fails_at) == (5, 6)
    assert tried[6] is None


def test_words() -> None:
    assert largest_words(Largest(flag="b", value=None, fails_at=1, tried={"1": False})) == (
        "Not even b=1 fits (1 trace)."
    )
    exact = largest_words(Largest(flag="b", value=5, fails_at=6, tried={"5": True, "6": None}))
    assert exact.startswith("The largest b that fits is 5; with 6 the script ends")
    near = largest_words(Largest(flag="b", value=64, fails_at=66, tried={"64": True, "66": False}))
    assert near.startswith("b=64 fits; 66 does not, or may not (2 traces)")
