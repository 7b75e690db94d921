"""`oomph plan --against RUN` from the command line."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from oomph.report.verify.against_json import read_schema, schema_text
from tests.diagnose.verify.against.test_compare import BASE, rank_of
from tests.diagnose.verify.against.test_recorded_job import TRAINER
from tests.diagnose.verify.runs import write

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
DOCS = Path(__file__).parents[2] / "docs" / "schema"
JOB = (
    "gpt2", "--batch", "2", "--seq", "256", "--precision", "fp32", "--optimizer", "adamw-fused", "--gpu", "a100-40gb",
    "--framework", "transformers", "--set", "batch.padding=off", "--no-replay",
)  # fmt: skip


@pytest.fixture
def recorded(tmp_path):
    values = {**TRAINER, "arguments.per_device_train_batch_size": "2", "arguments.bf16": "False"}
    values["arguments.gradient_accumulation_steps"] = "1"
    del values["model.gradient_checkpointing"], values["versions.torch"], values["versions.transformers"]
    return str(write(tmp_path / "run", [rank_of(BASE)], fingerprint=values))


def document(run, *arguments: str) -> dict[str, Any]:
    result = run("plan", *arguments, "--format", "json")
    assert result.stdout, result.stderr
    answer = json.loads(result.stdout)
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert answer["exit_code"] == result.exit_code
    return answer


def test_a_job_that_is_named(run, recorded):
    result = run("plan", *JOB, "--against", recorded)
    assert result.exit_code == 0, result.stdout + result.stderr
    assert result.stdout.startswith("The run needed what was predicted: 4 phases lie within the interval\n")
    answer = document(run, *JOB, "--against", recorded)
    rows = {row["phase"]: row for row in answer["rows"]}
    assert rows["backward"]["difference_bytes"] == 0
    assert (answer["causes"], answer["source"]) == ([], "gpt2")


def test_a_longer_batch_is_named_with_its_bytes(run, recorded):
    result = run("plan", *JOB, "--set", "batch.sequence=128", "--against", recorded)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "longest batch 2 x 256 tokens" in text
    assert "explained" in text
    assert run("plan", *JOB, "--seq", "128", "--against", recorded, "--exit-zero").exit_code == 0


def test_the_job_that_the_run_recorded(run, recorded):
    answer = document(run, "--against", recorded, "--no-replay")
    assert answer["source"] == "the job that it recorded itself"
    assert (answer["job"]["batch"]["micro"], answer["job"]["batch"]["sequence"]) == (2, 256)
    assert answer["exit_code"] == 0
    changed = document(run, "--against", recorded, "--no-replay", "--batch", "1")
    assert changed["job"]["batch"]["micro"] == 1
    assert changed["causes"][0]["kind"] == "batch"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "html"), "--against prints text or json"),
        (("--fit",), "leave --fit"),
        (("-o", "nowhere/x.txt"), "does not exist"),
    ],
)
def test_what_is_refused(run, recorded, arguments, words):
    result = run("plan", *JOB, "--against", recorded, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_what_is_no_run_and_what_names_no_model(run, tmp_path):
    result = run("plan", "gpt2", "--against", "missing")
    assert (result.exit_code, result.stdout) == (2, "")
    path = str(write(tmp_path / "bare", [rank_of(BASE)]))
    result = run("plan", "--against", path)
    assert result.exit_code == 2
    assert "name the job" in result.stderr


def test_the_published_schema_is_that_of_the_types():
    message = (
        'Otherwise: python -c "from oomph.report.verify.against_json import schema_text; print(schema_text(), '
        "end='')\" > src/oomph/report/schema/plan-against.schema.json, and copy it to docs/schema/"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(read_schema()))
    assert schema_text() == read_schema(), message
    assert (DOCS / "plan-against.schema.json").read_text(encoding="utf-8") == read_schema(), message
