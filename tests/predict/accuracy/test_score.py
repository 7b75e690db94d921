from __future__ import annotations

import json

import pytest

from benchmarks.judge.answers import Answer
from benchmarks.judge.report import as_json, as_text
from benchmarks.judge.rows import Row
from benchmarks.judge.score import p90, score, scores_by
from benchmarks.judge.verdicts import judge


def predicted(name, measured, value, low=None, high=None, source="s", metric="max_allocated"):
    return Answer(
        Row(name, source, metric, measured),
        value,
        value if low is None else low,
        value if high is None else high,
        "backward",
        situation="known",
    )


def test_errors_by_arithmetic():
    # errors: +10 %, -20 %, +1 %, +40 %; in size order 1, 10, 20, 40
    answers = [
        predicted("a", 100, 110, 100, 120),
        predicted("b", 100, 80, 70, 90),
        predicted("c", 100, 101, 99, 103),
        predicted("d", 100, 140, 90, 180),
        Answer(Row("e", "s", "max_allocated", 100), unsupported="no"),
    ]
    its = score(answers)
    assert its.n == 4
    assert its.median == pytest.approx(0.15)
    assert its.worst == pytest.approx(0.4)
    assert its.p90 == pytest.approx(0.4)
    assert its.bias == pytest.approx((0.10 - 0.20 + 0.01 + 0.40) / 4)
    assert its.coverage == pytest.approx(3 / 4)
    # widths: 20/110, 20/80, 4/101, 90/140
    assert its.width == pytest.approx((20 / 110 + 20 / 80) / 2)


def test_nine_of_ten_errors_are_not_above_the_90th_percentile():
    assert p90([i / 100 for i in range(1, 11)]) == 0.09
    assert p90([0.5]) == 0.5


def test_nothing_to_score_has_no_numbers():
    its = score([])
    assert (its.n, its.median, its.coverage) == (0, None, None)


def test_sources_are_scored_apart():
    both = scores_by(
        [predicted("a", 100, 110, source="x"), predicted("b", 100, 100, source="y")],
        lambda each: each.row.source,
    )
    assert both["x"].median == pytest.approx(0.1)
    assert both["y"].median == 0


def said(name, outcome, fits, uncertainty="", capacity=100):
    row = Row(name, "s", "max_allocated", None, outcome, uncertainty=uncertainty)
    return Answer(row, 50, 45, 55, "backward", fits, capacity)


def test_verdicts_are_told_apart():
    its = judge(
        [
            said("wrong", "oom", True),
            said("far", "oom", True, "extrapolation from smaller batches"),
            said("right", "oom", False),
            said("open", "oom", None),
            said("pessimist", "fits", False),
            said("shy", "fits", None),
            said("good", "fits", True),
            said("nowhere", "fits", None, capacity=None),
        ]
    )
    assert its.judged == 7
    assert (its.ooms, its.fits) == (4, 3)
    assert its.false_fits == ("wrong",)
    assert its.false_fits_extrapolated == ("far",)
    assert its.false_ooms == ("pessimist",)
    assert its.unsure_ooms == ("open",)
    assert its.unsure_fits == ("shy",)
    assert its.unjudged == ("nowhere",)


def test_a_measured_row_is_one_that_fitted():
    row = Row("a", "s", "max_allocated", 100)
    assert judge([Answer(row, 120, 110, 130, "forward", False, 105)]).false_ooms == ("a",)


def test_json_has_the_keys_that_programs_read():
    points = [predicted("a", 100, 110), Answer(Row("b", "t", "max_reserved", 5), unsupported="why not")]
    verdicts = [
        said("o", "oom", True),
        Answer(Row("p", "t", "max_reserved", None, "oom"), unsupported="never"),
    ]
    read = json.loads(json.dumps(as_json(points, verdicts)))
    assert {
        "n",
        "median",
        "p90",
        "worst",
        "bias",
        "coverage",
        "false_fits",
        "false_ooms",
        "unsupported",
        "by_source",
        "by_metric",
        "rows",
    } <= read.keys()
    assert read["n"] == 1
    assert read["false_fits"] == 1
    assert [each["id"] for each in read["unsupported"]] == ["b", "p"]
    assert read["unsupported"][0]["reason"] == "why not"
    assert read["by_source"]["s"]["n"] == 1
    first, second = read["rows"]
    assert (first["measured"], first["predicted"], first["error"]) == (100, 110, pytest.approx(0.1))
    assert second["unsupported"] == "why not"


def test_text_names_every_row_and_every_reason():
    text = as_text(
        [
            predicted("row-a", 2**30, 2 * 2**30),
            Answer(Row("row-b", "t", "max_reserved", 5), unsupported="why not"),
        ],
        [said("row-o", "oom", True)],
    )
    assert "row-a" in text
    assert "+100.0%" in text
    assert "row-b: why not" in text
    assert "said to fit, ran out: 1 (row-o)" in text
