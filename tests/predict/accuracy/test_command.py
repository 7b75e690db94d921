from __future__ import annotations

import json

import pytest

from benchmarks.judge.main import main
from oomph.errors import UsageError
from oomph.phases import Phase
from tests.predict.accuracy.fakes import KNOWN, peak, plan, rank

ROW = {"source": "a paper", "model": {"config": "m.json"}, "metric": "max_allocated"}


def from_row(raw, configs):
    if raw["id"] == "strange":
        raise UsageError("unsupported: a hexagonal loss")
    return KNOWN


def planned(job, replay):
    # 1,000 bytes at the peak, 5 % either side; 1,200 reserved
    return plan(
        rank(peak(Phase.BACKWARD, 1000, 950, 1050, reserved=1200 if replay else None)),
        fits=True,
        capacity=2000,
    )


@pytest.fixture
def points(tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "m.json").write_text("{}")
    path = tmp_path / "points.jsonl"
    rows = [
        {**ROW, "id": "near", "value_bytes": 1250},  # 1000 / 1250 - 1 = -20 %, not in 950-1050
        {**ROW, "id": "held", "metric": "max_reserved", "value_bytes": 1200},  # exact
        {**ROW, "id": "strange", "value_bytes": 5},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def run(capsys, *arguments):
    code = main("", [str(each) for each in arguments], from_row, planned)
    return code, capsys.readouterr()


def test_two_rows_by_arithmetic(capsys, points):
    code, said = run(capsys, "--points", points, "--json")
    read = json.loads(said.out)
    assert code == 0
    assert (read["n"], read["median"], read["worst"], read["bias"]) == (
        2,
        pytest.approx(0.1),
        pytest.approx(0.2),
        pytest.approx(-0.1),
    )
    assert read["coverage"] == 0.5
    assert read["by_metric"]["max_reserved"]["worst"] == 0
    assert read["by_source"]["a paper"]["n"] == 2
    assert [each["reason"] for each in read["unsupported"]] == ["unsupported: a hexagonal loss"]
    # all rows ran and both that have a prediction were said to fit
    assert (read["false_fits"], read["false_ooms"], read["verdicts"]["judged"]) == (0, 0, 2)


def test_verdicts_of_another_file(capsys, points):
    verdicts = points.with_name("verdicts.jsonl")
    verdicts.write_text(
        "\n".join(
            json.dumps({**ROW, "id": name, "value_bytes": None, "outcome": "oom", "uncertainty": why})
            for name, why in (("seen", "printed"), ("guessed", "by extrapolation from smaller batches"))
        )
    )
    _, said = run(capsys, "--points", points, "--verdicts", verdicts, "--json")
    read = json.loads(said.out)
    assert read["false_fits"] == 1
    assert read["verdicts"]["false_fits"] == ["seen"]
    assert read["verdicts"]["false_fits_extrapolated"] == ["guessed"]
    assert [each["id"] for each in read["verdict_rows"]] == ["seen", "guessed"]


def test_without_a_replay_reserved_rows_have_no_number(capsys, points):
    _, said = run(capsys, "--points", points, "--no-replay")
    assert "held: the plan has no max_reserved" in said.out


def test_text_and_bands_can_be_printed(capsys, points):
    code, said = run(capsys, "--points", points)
    assert code == 0
    assert "strange: unsupported: a hexagonal loss" in said.out
    assert "-20.0%" in said.out
    code, said = run(capsys, "--points", points, "--calibrate")
    assert code == 0
    assert "allocated" in said.out


def test_a_file_that_is_not_there_is_one_sentence(capsys, tmp_path):
    code, said = run(capsys, "--points", tmp_path / "no.jsonl")
    assert code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1


def test_a_failure_of_oomph_itself_is_told_by_the_exit_code(capsys, points):
    def broken(job, replay):
        raise ZeroDivisionError("inside")

    assert main("", ["--points", str(points)], from_row, broken) == 1
    assert "oomph failed: ZeroDivisionError: inside" in capsys.readouterr().out


def test_tables_for_the_docs(capsys, points):
    code, said = run(capsys, "--points", points, "--verdicts", points, "--markdown")
    assert code == 0
    assert said.out.startswith("2 of 3 points have a prediction.\n")
    # errors of 0 and -20 %: median 10 %
    assert "| **all** | 2 | 10.0 % |" in said.out
    assert "| `max_allocated` | 1 | 20.0 % | 20.0 % | 20.0 % | \N{MINUS SIGN}20.0 % | 0.0 % |" in said.out
    assert "- strange: unsupported: a hexagonal loss" in said.out
