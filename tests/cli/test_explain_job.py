"""`oomph explain` where the job is known: predictions beside the advice, and whether prediction and log agree."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

import pytest

import oomph
from oomph.report.json import read_schema
from tests.conftest import ROOT
from tests.remedy.logs_of_jobs import COMMAND, GPU, WHOLE, failure

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

LINES = "batch_size: 4\nsequence_length: 4096\nmixed_precision: bf16\nmodel: own-8b\n"
TOML = """[model]
name = "meta-llama/Llama-3.1-8B"

[batch]
micro = 4
sequence = 4096

[hardware]
gpu = "a100-80gb"
"""


@pytest.fixture
def log(tmp_path):
    """A log that says its job."""
    path = tmp_path / "train.log"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def test_the_first_change_has_a_prediction_and_the_log_is_held_against_it(run, log):
    result = run("explain", log.name)
    assert (result.exit_code, result.stderr) == (1, "")
    text = " ".join(result.stdout.split())
    assert "Predicted to free" in text.partition("First change")[2].partition("Then")[0]
    assert "74.00 MiB is missing" in text  # 224.00 - 150.00
    after = text.partition("Prediction and log")[2]
    assert "the log has 78.42 GiB (allocated, and the request that failed)" in after  # 78.20 GiB + 224 MiB
    assert "batch.micro = 4 (per_device_train_batch_size = 4, train.log:1)" in after
    assert "hardware.gpu = a100-80gb (train.log:2)" in after


def test_json_has_the_same_and_is_valid(run, log):
    answer = json.loads(run("explain", "--format", "json", log.name).stdout)
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert answer["schema_version"] == "1"
    predicted = answer["advice"]["first"]["predicted"]
    assert predicted["missing_bytes"] == 74 * 2**20
    assert predicted["frees_bytes"] > 0
    assert answer["plan"]["agreement"]["verdict"] in ("agrees", "on_the_way")
    fields = {field["path"]: field for field in answer["plan"]["fields"]}
    assert fields["batch.sequence"]["value"] == "4096"
    assert fields["batch.sequence"]["quote"]["line"] == 1


def test_markdown_has_the_same(run, log):
    text = run("explain", "--format", "markdown", log.name).stdout
    assert "**Prediction and log**" in text
    assert text.count("Predicted to free") >= 1
    assert "batch.micro = 4" in text


@pytest.mark.parametrize("output_format", ["text", "json", "markdown"])
def test_a_log_without_a_job_says_nothing_of_it(run, tmp_path, output_format):
    (tmp_path / "train.log").write_text(LINES + GPU + failure(), encoding="utf-8")
    result = run("explain", "--format", output_format, "train.log")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "redict" not in result.stdout
    if output_format == "json":
        answer = json.loads(result.stdout)
        assert "plan" not in answer
        assert "predicted" not in answer["advice"]["first"]


def test_verbose_says_why_nothing_is_predicted(run, tmp_path):
    (tmp_path / "train.log").write_text(LINES + GPU + failure(), encoding="utf-8")
    result = run("explain", "-v", "train.log")
    assert "nothing is predicted: The log does not say the model; --job FILE gives it." in result.stderr


def test_a_job_may_be_given(run, tmp_path):
    (tmp_path / "train.log").write_text(failure(), encoding="utf-8")
    (tmp_path / "job.toml").write_text(TOML, encoding="utf-8")
    result = run("explain", "--job", "job.toml", "train.log")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "Predicted to free" in result.stdout


def test_what_is_given_is_completed_by_the_log(run, tmp_path):
    (tmp_path / "train.log").write_text(LINES + GPU + failure(), encoding="utf-8")
    result = run("explain", "--job", "meta-llama/Llama-3.1-8B", "train.log")
    assert result.exit_code == 1
    assert "Predicted to free" in result.stdout
    assert "batch.micro = 4 (batch_size = 4, train.log:1)" in " ".join(result.stdout.split())


def test_a_job_that_cannot_be_used_is_a_note(run, tmp_path):
    (tmp_path / "train.log").write_text(GPU + failure(), encoding="utf-8")
    result = run("explain", "--job", "meta-llama/Llama-3.1-8B", "train.log")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert (
        "Nothing is predicted. Neither the log nor --job says the batch size and the length of the sequences"
        in words
    )
    assert "Predicted" not in words


def test_of_host_memory_nothing_is_predicted(run, tmp_path):
    (tmp_path / "train.log").write_text(
        COMMAND + "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."
    )
    result = run("explain", "--job", "meta-llama/Llama-3.1-8B", "train.log")
    assert result.exit_code == 1
    assert "The failure is not one of the GPU's memory." in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", ["none.json", "a-model-that-nobody-knows", ""])
def test_a_job_that_is_none_is_an_error_before_anything_is_read(run, log, name):
    result = run("explain", "--job", name, log.name)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("oomph: ") or "Error" in result.stderr


def test_two_runs_are_compared_without_a_job(run, log):
    result = run("explain", "--compare", "--job", "gpt2", log.name, log.name)
    assert result.exit_code == 2
    assert "leave --job out" in result.stderr


def test_redaction_takes_names_out_of_what_is_predicted_too(run, tmp_path):
    place = "/home/marta/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39"
    text = WHOLE.replace("meta-llama/Llama-3.1-8B", place)
    (tmp_path / "marta.log").write_text(text, encoding="utf-8")
    for output_format in ("text", "json", "markdown"):
        result = run("explain", "--redact", "--format", output_format, "marta.log")
        assert "marta" not in result.stdout
        assert "Predicted to free" in result.stdout


def test_what_plans_is_loaded_for_a_job_alone(log):
    program = (
        "import sys; from oomph.api import explain; explain(sys.argv[1:]); "
        "print(sorted(m for m in sys.modules if m.startswith(('oomph.predict.', 'oomph.job'))))"
    )

    def loaded(path: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert loaded(str(ROOT / "examples" / "ddp-backward.log")) == "[]"
    assert "oomph.predict.plan" in loaded(str(log))


def test_the_function_takes_a_job(log):
    job = oomph.plan("meta-llama/Llama-3.1-8B", gpu="a100-80gb", replay=False).job
    for given in (job, "meta-llama/Llama-3.1-8B", ["meta-llama/Llama-3.1-8B"], None):
        diagnosis = oomph.explain([log], job=given)
        assert diagnosis.plan is not None
        assert diagnosis.advice is not None
        assert diagnosis.advice.first.predicted is not None
        assert diagnosis.exit_code == 1


@pytest.mark.parametrize(("share", "verdict"), [(1.0, "agrees"), (1.3, "more")])
def test_a_log_that_has_what_is_predicted_agrees_and_one_that_has_more_does_not(
    run, log, tmp_path, share, verdict
):
    """The same job on a card on which its step fails with the predicted bytes allocated, or 30 % more."""
    predicted = json.loads(run("explain", "--format", "json", log.name).stdout)["plan"]["agreement"]
    gib = share * predicted["predicted_bytes"] / 2**30
    text = failure(
        asked="1.00 GiB",
        free="0.50 GiB",
        allocated=f"{gib - 1:.2f} GiB",
        process=f"{gib:.2f} GiB",
        capacity=f"{gib + 1:.2f} GiB",
    )
    log.write_text(WHOLE.replace(GPU, "").replace(failure(), text), encoding="utf-8")
    answer = json.loads(run("explain", "--format", "json", log.name).stdout)
    assert answer["plan"]["agreement"]["verdict"] == verdict
    step = answer["advice"]["first"]["predicted"]
    assert step["doubtful"] is (verdict == "more")
    assert step["missing_bytes"] == 2**29
    assert ("Doubtful" in step["says"]) is (verdict == "more")
    assert answer["exit_code"] == 1
