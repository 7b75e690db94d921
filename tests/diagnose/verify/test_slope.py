from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.diagnose.verify.slope import new_highs, slope, thinned, without_largest_jump


def test_a_line_is_its_slope():
    found = slope([(x, 3.0 * x + 7) for x in range(20)])
    assert found is not None
    assert (found.middle, found.low, found.high, found.points) == (3.0, 3.0, 3.0, 20)


@pytest.mark.parametrize("points", [[], [(1.0, 1.0)], [(1.0, 1.0), (2.0, 2.0)], [(1.0, y) for y in range(5)]])
def test_too_little_has_no_slope(points):
    assert slope([(float(x), float(y)) for x, y in points]) is None


def test_the_interval_by_hand():
    """Ten points: 45 pairs; C = 2.576 * sqrt(10 * 9 * 25 / 18) = 28.8. The bounds are the 8th and the 38th slope, one
    further out where that is not whole."""
    rng = random.Random(0)
    points = [(float(x), x + rng.gauss(0, 3)) for x in range(10)]
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :])
    found = slope(points)
    assert found is not None
    assert found.middle == pytest.approx(slopes[22])
    assert found.low <= slopes[7]
    assert found.high >= slopes[37]


def test_noise_without_growth_is_seldom_called_growth():
    """99 % two-sided: of 400 flat series about two have a lower end above 0."""
    rng = random.Random(1)
    called = 0
    for _ in range(400):
        found = slope([(float(x), rng.gauss(0, 1)) for x in range(15)])
        assert found is not None
        called += found.low > 0
    assert called <= 8


@given(st.lists(st.integers(-(10**12), 10**12), min_size=3, max_size=40))
def test_the_interval_holds_the_slope(values):
    found = slope([(float(x), float(y)) for x, y in enumerate(values)])
    assert found is not None
    assert found.low <= found.middle <= found.high


def test_many_points_are_thinned_evenly():
    kept = thinned([(float(x), float(x)) for x in range(100_000)])
    assert len(kept) == 150
    assert (kept[0], kept[-1]) == ((0.0, 0.0), (99_999.0, 99_999.0))


def test_a_jump_is_taken_out():
    points = [(float(x), 5.0 + (100 if x > 4 else 0)) for x in range(10)]
    assert without_largest_jump(points) == [(float(x), 5.0) for x in range(10)]


def test_a_steady_rise_has_no_jump():
    points = [(float(x), 3.0 * x) for x in range(10)]
    assert without_largest_jump(points) == points


def test_a_fall_is_a_jump_too():
    points = [(float(x), 100.0 if x < 5 else 1.0) for x in range(10)]
    assert without_largest_jump(points) == [(float(x), 100.0) for x in range(10)]


def test_new_highs():
    assert new_highs([(0.0, 5.0), (1.0, 5.0), (2.0, 7.0), (3.0, 6.0), (4.0, 8.0)]) == 2
    assert new_highs([]) == 0
