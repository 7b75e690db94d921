from __future__ import annotations

import pytest

from benchmarks.judge.answers import Answer
from benchmarks.judge.calibrate import Residual, band, blinded, left_out, residuals
from benchmarks.judge.rows import Row


def cell(source, *values, counter="allocated", situation="known"):
    return [Residual(source, counter, situation, value) for value in values]


def test_a_residual_is_how_far_the_measured_lies_from_the_predicted():
    [its] = residuals([Answer(Row("a", "s", "max_active", 105), 100, situation="sharded")])
    assert its.value == pytest.approx(0.05)
    assert (its.counter, its.situation) == ("allocated", "sharded")


def test_inside_of_the_codes_variants_nothing_is_off():
    row = Row("a", "s", "max_allocated", 105)
    within, above, below = (
        Answer(row, 100, situation="known", code=code) for code in ((90, 110), (90, 100), (120, 140))
    )
    assert within.residual == 0
    assert above.residual == pytest.approx(0.05)  # 105 / 100 - 1
    assert below.residual == pytest.approx(-0.125)  # 105 / 120 - 1


def test_a_blinded_row_says_not_whose_code_ran():
    row = Row(
        "a", "fms tables [x]", "max_allocated", 1, raw={"framework": "torch 2.4", "source": "fms tables [x]"}
    )
    its = blinded(row)
    assert its.raw == {"framework": None, "source": "not named"}
    # who published it still decides which rows are left out together
    assert its.publication == "fms tables"


def test_code_that_nobody_named_has_a_band_of_its_own():
    known = [each for name in "abcd" for each in cell(name, 0.02) + cell(name, 0.3, situation="unknown")]
    assert band(known, "allocated", "known") == (0.01, 0.02)
    assert band(known, "allocated", "unknown") == (0.01, 0.3)


def test_a_counter_of_few_sources_has_one_width_on_both_sides():
    known = cell("a", 0.02) + cell("b", -0.05) + cell("c", 0.0)
    assert band(known, "allocated", "known") == (0.05, 0.05)
    few = cell("a", 0.001, counter="end_allocated") + cell("a", 0.001, counter="reserved")
    assert band(few, "end_allocated", "known") == (0.02, 0.02)
    assert band(few, "reserved", "known") == (0.05, 0.05)


def test_a_situation_is_never_surer_than_its_counter():
    known = [each for name in "abcd" for each in cell(name, 0.0) + cell(name, 0.06, situation="compiled")]
    assert band(known, "allocated", "compiled") == (0.01, 0.06)
    # 0 and 6 % alternate in the counter as a whole: 95 % of its four sources are reached by the 6 %
    assert band(known, "allocated", "known") == (0.01, 0.06)


def test_few_sources_give_their_extremes_rounded_up():
    known = cell("a", 0.011) + cell("b", -0.021) + cell("c", 0.031) + cell("d", 0.0)
    # 95 % of 4 sources are 3.8, more than three: the extremes, up to the next half percent
    assert band(known, "allocated", "known") == (0.025, 0.035)


def test_many_sources_leave_out_what_is_rare():
    # 40 sources from -20 to 19 thousandths: 95 % of them are 38, and the 38th is 17, from below -18
    known = [each for i in range(40) for each in cell(f"s{i}", (i - 20) / 1000)]
    assert band(known, "allocated", "known") == (0.02, 0.02)
    outlier = [*known[:-1], *cell("s39", 0.5)]
    assert band(outlier, "allocated", "known") == (0.02, 0.02)


def test_a_source_weighs_the_same_however_many_rows_it_has():
    once = [each for i in range(40) for each in cell(f"s{i}", 0.0)]
    often = [*once[:-1], *cell("s39", *[0.3] * 1000)]
    assert band(often, "allocated", "known") == (0.01, 0.01)


def test_a_cell_with_few_sources_takes_those_of_its_counter():
    known = cell("a", 0.02) + cell("b", -0.03) + cell("c", 0.0) + cell("d", 0.0)
    assert band(known, "allocated", "compiled") == (0.03, 0.02)
    assert band(known, "reserved", "known") is None


def test_sources_are_judged_by_the_others():
    known = cell("a", 0.005, 0.005) + cell("b", 0.005) + cell("c", 0.2)
    covered, width, rows = left_out(known)
    # c lies outside what a and b give (1 % either side); these lie inside what the other and c give (20 % either side)
    assert rows == 4
    assert covered == pytest.approx(3 / 4)
    assert width == pytest.approx(0.4)


def test_a_counter_of_one_source_cannot_be_judged():
    assert left_out(cell("a", 0.1, 0.2)) == (0.0, 0.0, 0)
