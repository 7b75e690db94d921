from __future__ import annotations

import json

import pytest

from benchmarks.judge.rows import read
from oomph.errors import InputError

ROW = {
    "id": "a-1",
    "source": "a",
    "model": {"config": "m.json"},
    "metric": "max_allocated",
    "value_bytes": 1024,
    "uncertainty": None,
}


def written(tmp_path, *lines):
    path = tmp_path / "points.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_a_row_is_read(tmp_path):
    [row] = read(written(tmp_path, ROW))
    assert (row.id, row.source, row.metric, row.measured, row.outcome, row.problem) == (
        "a-1",
        "a",
        "max_allocated",
        1024,
        None,
        None,
    )


def test_unknown_keys_are_no_problem_and_are_named(tmp_path):
    [row] = read(written(tmp_path, {**ROW, "colour": "red"}))
    assert row.problem is None
    assert row.raw == ROW
    assert row.ignored == ("colour",)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is not JSON"),
        ("[]", "not a JSON object"),
        ({**ROW, "metric": "heat"}, "'heat'"),
        ({**ROW, "metric": None}, "metric"),
        ({**ROW, "outcome": "maybe"}, "'maybe'"),
        ({**ROW, "value_bytes": None}, "neither a measured size"),
        ({**ROW, "value_bytes": "12"}, "neither a measured size"),
        ({**ROW, "value_bytes": True}, "neither a measured size"),
        ({**ROW, "value_bytes": -1}, "neither a measured size"),
        ({**ROW, "model": {}}, "model.config"),
        ({**ROW, "model": None}, "model.config"),
    ],
)
def test_a_line_that_is_no_row_is_kept_with_its_reason(tmp_path, line, words):
    good, bad = read(written(tmp_path, ROW, line))
    assert good.problem is None
    assert bad.problem is not None
    assert words in bad.problem


def test_an_outcome_needs_no_size(tmp_path):
    [row] = read(written(tmp_path, {**ROW, "value_bytes": None, "outcome": "oom"}))
    assert row.problem is None


def test_an_oom_is_extrapolated_where_the_row_says_so(tmp_path):
    seen, computed, fits = read(
        written(
            tmp_path,
            {**ROW, "outcome": "oom", "uncertainty": "OOM printed in the table."},
            {**ROW, "outcome": "oom", "uncertainty": "failure proven by extrapolation from smaller batches"},
            {**ROW, "outcome": "fits", "uncertainty": "Extrapolated."},
        )
    )
    assert [seen.extrapolated, computed.extrapolated, fits.extrapolated] == [False, True, False]


def test_no_file_and_no_rows_are_said_so(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(InputError, match="no rows"):
        read(written(tmp_path, ""))


def test_a_source_has_a_title_and_a_publication(tmp_path):
    [row] = read(written(tmp_path, {**ROW, "source": "Some tables (a.csv@12) [owner/name/a.csv@12]"}))
    assert row.title == "Some tables (a.csv@12)"
    assert row.publication == "Some tables"
