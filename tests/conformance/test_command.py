from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oomph.diagnose.model import (
    Advice,
    Certainty,
    Diagnosis,
    Finding,
    Incident,
    Outcome,
    PhaseVerdict,
    RankVerdict,
    Step,
)
from oomph.evidence.model import Evidence, Failure, Kind, Position, Quote
from oomph.memory.ledger import Ledger
from oomph.phases import Phase
from oomph.units import Amount
from tests.conformance.__main__ import main

MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB"
LABEL = {
    "log": "a.log",
    "format": "F2_reserved",
    "vendor": "cuda",
    "numbers": {"requested_bytes": 20 * 2**20, "free_bytes": None},
    "rank": None,
    "phase": "forward",
    "phase_evidence": "frame",
    "cause": "activations",
    "cause_confidence": "high",
    "first_fix": "",
}


def diagnosis(requested_bytes: int = 20 * 2**20, kind: Kind = Kind.DEVICE_OOM) -> Diagnosis:
    quote = Quote("a.log", 1, MESSAGE)
    failure = Failure(
        format="F2_reserved",
        kind=kind,
        vendor="cuda",
        position=Position(0, 0),
        end=Position(0, 0),
        quote=quote,
        numbers={"requested_bytes": Amount(requested_bytes)},
    )
    incident = Incident(
        failure=failure,
        status="fatal",
        rank=None,
        phase=PhaseVerdict(Phase.FORWARD, "frame", "the last frame is a forward"),
        ledger=Ledger(),
    )
    finding = Finding("OOM101", "activations", "activations", Certainty.LIKELY, "Activations.")
    return Diagnosis(
        outcome=Outcome.FAILED,
        summary="",
        incident=incident,
        incidents=(incident,),
        ranks=RankVerdict(first=None, how=""),
        findings=(finding,),
        ruled_out=(),
        evidence=Evidence(documents=()),
        advice=Advice(first=Step("micro-batch", "Halve the micro-batch", "")),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(MESSAGE)
    write(tmp_path, LABEL)
    return tmp_path


def write(folder: Path, *labels: object) -> None:
    rows = [label if isinstance(label, str) else json.dumps(label) for label in labels]
    (folder / "expect.jsonl").write_text("\n".join(rows) + "\n")


def test_rates_and_no_misses(folder, capsys):
    asked = []

    def explain(paths):
        asked.append(paths)
        return diagnosis()

    assert main(["logs", str(folder)], explain) == 0
    out = capsys.readouterr().out
    assert "1 of 1" in out
    assert "No misses." in out
    assert asked == [[folder / "logs" / "a.log"]]


def test_a_miss_is_named_with_its_log(folder, capsys):
    assert main(["logs", str(folder)], lambda _: diagnosis(20 * 2**20 + 1)) == 0
    out = capsys.readouterr().out
    assert "a.log\n" in out
    assert "number requested_bytes: expected 20971520, got 20971521" in out


def test_json_has_the_promised_keys_and_nothing_else_on_stdout(folder, capsys):
    assert main(["logs", str(folder), "--json", "-v"], lambda _: diagnosis(1)) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert {
        "numbers_right",
        "numbers_total",
        "phase_right",
        "phase_total",
        "phase_guessed",
        "cause_right",
        "cause_total",
        "cause_ranked",
        "cause_ranked_total",
        "false_alarms",
        "exit_wrong",
        "format_right",
        "format_total",
        "rank_right",
        "rank_total",
        "first_action_right",
        "first_action_total",
        "crashes",
        "misses",
    } <= set(result)
    assert result["misses"] == [
        {"log": "a.log", "what": "number requested_bytes", "expected": "20971520", "got": "1"}
    ]
    assert captured.err.startswith("a.log: failed, F2_reserved")


def test_a_crash_of_one_log_does_not_end_the_run(folder, capsys):
    def explain(paths):
        raise ZeroDivisionError("boom")

    assert main(["logs", str(folder), "--json"], explain) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["crashes"] == 1
    assert result["misses"][0]["got"] == "ZeroDivisionError: boom"


def test_host_memory_is_no_device_failure_but_still_a_failure(folder, capsys):
    write(folder, {**LABEL, "must_not_report": True, "cause": "not_an_oom", "numbers": {}})
    main(["logs", str(folder), "--json"], lambda _: diagnosis(kind=Kind.HOST_OOM))
    result = json.loads(capsys.readouterr().out)
    assert (result["false_alarms"], result["false_mentions"]) == (1, 0)


def test_the_rank_may_stand_in_the_verdict_on_ranks_alone(folder, capsys):
    write(folder, {**LABEL, "rank": 3, "first_failing_rank": 3})
    main(
        ["logs", str(folder), "--json"],
        lambda _: replace(diagnosis(), ranks=RankVerdict(first=3, how="the launcher's table")),
    )
    result = json.loads(capsys.readouterr().out)
    assert (result["rank_right"], result["first_rank_right"]) == (1, 1)


def test_a_folder_of_rank_files_is_handed_over_as_a_folder(folder):
    (folder / "logs" / "ranks").mkdir()
    write(folder, {**LABEL, "log": "ranks/", "is_dir": True})
    asked = []

    def explain(paths):
        asked.extend(paths)
        return diagnosis()

    assert main(["logs", str(folder)], explain) == 0
    assert asked == [folder / "logs" / "ranks"]


@pytest.mark.parametrize(
    ("breakage", "sentence"),
    [
        (lambda folder: (folder / "expect.jsonl").unlink(), "has no expect.jsonl"),
        (lambda folder: (folder / "logs").rename(folder / "other"), "has no logs folder"),
        (lambda folder: write(folder, ""), "is empty"),
        (lambda folder: write(folder, "{"), "line 1 is not a label"),
        (lambda folder: write(folder, LABEL, {"log": "a.log"}), "line 2 is not a label"),
        (lambda folder: write(folder, {**LABEL, "log": "b.log"}), "does not exist"),
    ],
)
def test_a_folder_that_cannot_be_judged(folder, capsys, breakage, sentence):
    breakage(folder)
    assert main(["logs", str(folder)], lambda _: diagnosis()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


def test_a_folder_that_does_not_exist(tmp_path, capsys):
    assert main(["logs", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == f"There is no folder {tmp_path / 'nowhere'}.\n"
