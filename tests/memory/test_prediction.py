"""Peaks with their intervals, and when a job is said to fit."""

from __future__ import annotations

import pytest

from oomph.memory.prediction import Peak, Prediction, highest
from oomph.phases import Phase

GIB = 1 << 30

FORWARD = Peak(6 * GIB, 7 * GIB, 7 * GIB, 8 * GIB, 3 * GIB)
BACKWARD = Peak(9 * GIB, 10 * GIB, 9 * GIB, 10 * GIB)
PHASES = {Phase.FORWARD: FORWARD, Phase.BACKWARD: BACKWARD}


def judged(capacity=None, ran_out=(), phases=PHASES):
    return Prediction.judged(0, 0, phases, capacity, ran_out)


def test_a_peak_of_several_orders() -> None:
    peak = Peak.of((5, 4, 6), (20, 18, 24), 3)
    assert peak == Peak(5, 20, 18, 24, 3, allocated_low_bytes=4, allocated_high_bytes=6)
    assert peak.most_bytes == 27


@pytest.mark.parametrize(
    "sizes",
    [(1, 5, 6, 7, 0), (1, 8, 6, 7, 0), (1, 5, -1, 7, 0), (-1, 5, 5, 5, 0), (1, 5, 5, 5, -1)],
)
def test_an_interval_that_does_not_hold_its_value_is_refused(sizes) -> None:
    with pytest.raises(ValueError, match=r"low and their high end|below 0"):
        Peak(*sizes)


def test_a_peak_needs_an_order() -> None:
    for allocated, reserved in (((5,), ()), ((), (5,))):
        with pytest.raises(ValueError, match="at least one order"):
            Peak.of(allocated, reserved)
    with pytest.raises(ValueError, match="allocated bytes do not lie"):
        Peak(5, 6, 6, 6, allocated_low_bytes=6)


def test_the_whole_is_no_lower_than_any_part() -> None:
    # The upper ends are 8 + 3 and 10 + 0: 11 in all, of which 1 lies above the highest reserved.
    assert highest([FORWARD, BACKWARD]) == Peak(
        9 * GIB,
        10 * GIB,
        9 * GIB,
        10 * GIB,
        1 * GIB,
        allocated_low_bytes=9 * GIB,
        allocated_high_bytes=9 * GIB,
    )
    assert highest([Peak.of((5, 3), (9,)), Peak.of((4, 8), (9,))]) == Peak.of((5, 4, 8), (9,))
    assert highest([]) == Peak(0, 0, 0, 0)


def test_it_fits_only_when_the_upper_end_fits() -> None:
    assert judged(11 * GIB).fits is True
    assert judged(11 * GIB).fails_in is None
    assert judged(11 * GIB).spare_bytes == 0
    less = judged(11 * GIB - 1)
    assert less.fits is False
    assert less.fails_in is Phase.FORWARD
    assert less.spare_bytes == -1
    assert less.surely_fails is False


def test_the_first_phase_that_does_not_fit_is_named() -> None:
    assert (
        judged(10 * GIB - 1, phases={Phase.FORWARD: BACKWARD, Phase.BACKWARD: FORWARD}).fails_in
        is Phase.FORWARD
    )


def test_without_a_capacity_there_is_no_verdict() -> None:
    found = judged()
    assert (found.fits, found.fails_in, found.spare_bytes) == (None, None, None)


def test_plays_decide_where_there_are_any() -> None:
    # 10 GiB less than what would be reserved without a limit, and yet every order came to the end.
    fine = judged(10 * GIB, (None, None))
    assert fine.fits is True
    assert (fine.orders_played, fine.orders_failed) == (2, 0)
    some = judged(20 * GIB, (None, Phase.BACKWARD))
    assert some.fits is False
    assert some.fails_in is Phase.BACKWARD
    assert some.surely_fails is False
    every = judged(20 * GIB, (Phase.BACKWARD, Phase.FORWARD))
    assert every.fails_in is Phase.FORWARD
    assert every.surely_fails is True


def test_a_phase_without_a_peak_can_be_the_one_that_fails() -> None:
    assert judged(20 * GIB, (Phase.SAVE,)).fails_in is Phase.SAVE


def test_verdicts_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="need a capacity"):
        judged(None, (Phase.LOAD,))
    with pytest.raises(ValueError, match="fails nowhere"):
        Prediction(0, 0, PHASES, BACKWARD, 20 * GIB, True, Phase.LOAD)
    with pytest.raises(ValueError, match="Without a capacity"):
        Prediction(0, 0, PHASES, BACKWARD, None, True)
