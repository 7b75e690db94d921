"""`oomph plan --fit`, `--max` and `--gpus` with clouds: the command line, with a prediction that is arithmetic."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from oomph.cli.plan_fit import clouds_of, share
from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.predict.model import Plan
from tests.remedy.jobs import GIB, needs, plan_of

LLAMA = "meta-llama/Llama-3.1-8B"
BASE = ("plan", LLAMA, "--gpu", "a100-80gb", "--batch", "8", "--seq", "2048", "--no-replay")


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch):
    """Every prediction is the made-up one of tests/remedy, on 80 GiB."""

    def plan(job: Job, replay: bool = True) -> Plan:
        del replay
        return plan_of(job, 80 * GIB, needs(job))

    made = SimpleNamespace(plan=plan, peak_bytes=lambda job: max(needs(job).values()))
    monkeypatch.setitem(sys.modules, "oomph.predict.plan", made)
    monkeypatch.setattr("oomph.remedy.short.short_peak_bytes", lambda _: None)


def test_fit(run):
    result = run(*BASE, "--fit")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("It does not fit in 76.00 GiB in forward")
    assert "What makes it fit" in result.stdout


def test_headroom_and_allow(run):
    document = json.loads(
        run(*BASE, "--fit", "--headroom", "10%", "--allow", "seq,method", "--format", "json").stdout
    )
    assert document["room_bytes"] == 72 * GIB
    assert {change["allow"] for each in document["fit"]["choices"] for change in each["changes"]} <= {
        "",
        "seq",
        "method",
    }
    assert {change["allow"] for change in document["fit"]["not_allowed"]} == {"precision", "machine"}


def test_max(run):
    result = run(*BASE, "--max", "batch")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("The largest that fits: ")


def test_clouds(run):
    result = run(*BASE, "--gpus", "gcp,lambda", "--format", "markdown")
    assert result.exit_code in (0, 1), result.stderr
    assert "machine types" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fit", "--max", "seq"), "two questions"),
        (("--allow", "seq"), "--allow is for --fit"),
        (("--headroom", "5%"), "--headroom is for"),
        (("--fit", "--headroom", "120%"), "a share of the card"),
        (("--fit", "--allow", "everything"), "--allow takes batch, seq, precision, method, machine"),
        (("--gpus", "gcp,moon"), "moon"),
    ],
)
def test_what_makes_no_sense_is_refused(run, options, words):
    result = run(*BASE, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "value"), [("10%", 0.1), ("0.1", 0.1), ("10", 0.1), ("0", 0.0), (None, 0.05)]
)
def test_shares(text, value):
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "ten", "100%", "-3%", "nan"])
def test_shares_that_are_none(text):
    with pytest.raises(UsageError, match="headroom"):
        share(text)


def test_numbers_are_no_clouds():
    assert clouds_of("8") == ()
    assert clouds_of(None) == ()
    assert clouds_of("all") == ("gcp", "aws", "azure", "lambda")
    assert clouds_of("GCP, aws") == ("gcp", "aws")


def test_machines_are_not_said_to_be_too_small_for_what_cannot_be_predicted(run, monkeypatch):
    import oomph.remedy.machines as machines

    def refuse(job: Job) -> int:
        raise UsageError("unsupported: expert parallelism.")

    whole = machines.compare_machines
    monkeypatch.setattr(
        machines, "compare_machines", lambda *asked, **more: whole(*asked, **more, predictor=refuse)
    )
    result = run(*BASE, "--gpus", "lambda")
    assert result.exit_code == 2
    assert "unsupported: expert parallelism." in result.stderr
    assert result.stdout == ""
