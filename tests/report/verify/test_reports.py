"""The three forms of an answer, and that what a run's records say can steer neither terminal, CI nor XML."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from oomph.diagnose.verify.model import Answer, Status, Verification
from oomph.phases import Phase
from oomph.report.options import ReportOptions
from oomph.report.verify.json import read_schema, render_json, schema_text
from oomph.report.verify.junit import render_junit
from oomph.report.verify.text import render_text
from oomph.report.verify.words import headline

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
DOCS = Path(__file__).parents[3] / "docs" / "schema"

PASSED = Answer("retries", Status.PASSED, "no retry on any rank", numbers={"retries_count": 0.0})
FAILED = Answer(
    "limit",
    Status.FAILED,
    "31.00 GiB were reserved; the limit is 30.00 GiB",
    "backward",
    3,
    Phase.BACKWARD,
    {"peak_bytes": 31 << 30},
)
UNKNOWN = Answer("growth", Status.UNKNOWN, "rank 0 recorded 3 steps")
SKIPPED = Answer("ranks", Status.SKIPPED, "the job has one rank")
HOSTILE = Answer("retries", Status.FAILED, '\x1b[31m::error::<x a="1">&\n]]> \x00\ud800 ##[group]', rank=0)


def verification(*answers: Answer, strict: bool = False, notes: tuple[str, ...] = ()) -> Verification:
    return Verification("run-1", "runs/run-1", "completed", answers, notes, strict)


@pytest.mark.parametrize(
    ("answers", "strict", "verdict", "code", "words"),
    [
        ((PASSED, PASSED), False, Status.PASSED, 0, "Verified: 2 checks passed"),
        ((PASSED, SKIPPED), False, Status.PASSED, 0, "Verified: the check passed"),
        ((PASSED, FAILED, UNKNOWN), False, Status.FAILED, 1, "Not verified: 1 check failed (limit[backward]), 1 "),
        ((PASSED, UNKNOWN), False, Status.UNKNOWN, 0, "Nothing failed, but 1 check could not be told (growth); 1 p"),
        ((PASSED, UNKNOWN), True, Status.UNKNOWN, 1, "Nothing failed, but 1 check could not be told (growth) and c"),
        ((UNKNOWN,), False, Status.UNKNOWN, 1, "Not verified: nothing could be told"),
        ((SKIPPED,), False, Status.UNKNOWN, 1, "Not verified: nothing was checked"),
        ((), False, Status.UNKNOWN, 1, "Not verified: nothing was checked"),
    ],
)  # fmt: skip
def test_verdicts(answers, strict, verdict, code, words):
    found = verification(*answers, strict=strict)
    assert (found.verdict, found.exit_code) == (verdict, code)
    assert headline(found).startswith(words)
    document = json.loads(render_json(found))
    jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert (document["verdict"], document["exit_code"]) == (verdict.value, code)


def test_the_published_schema_is_that_of_the_types():
    message = (
        "Otherwise: python -c \"from oomph.report.verify.json import schema_text; print(schema_text(), end='')\" "
        "> src/oomph/report/schema/verify.schema.json, and copy it to docs/schema/"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(read_schema()))
    assert schema_text() == read_schema(), message
    assert (DOCS / "verify.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_text():
    found = verification(PASSED, FAILED, UNKNOWN, SKIPPED, notes=("a line is torn",))
    assert render_text(found, ReportOptions()) == (
        "Not verified: 1 check failed (limit[backward]), 1 check could not be told\n"
        "Run run-1 (completed).\n"
        "\n"
        "  passed          retries          no retry on any rank\n"
        "  failed          limit[backward]  31.00 GiB were reserved; the limit is 30.00\n"
        "                                   GiB\n"
        "  could not tell  growth           rank 0 recorded 3 steps\n"
        "\n"
        "What could not be read\n"
        "  - a line is torn\n"
    )
    assert "the job has one rank" in render_text(found, ReportOptions(), everything=True)


def test_colour_is_put_on_the_status_alone():
    text = render_text(verification(PASSED), ReportOptions(colour=True))
    assert "  \x1b[1;32mpassed\x1b[0m  retries  no retry on any rank\n" in text


def cases(found: Verification) -> dict[str, list[str]]:
    tree = ET.fromstring(render_junit(found))  # noqa: S314 - our own
    return {case.attrib["name"]: [child.tag for child in case] for case in tree.iter("testcase")}


def test_junit():
    found = verification(PASSED, FAILED, UNKNOWN, SKIPPED)
    assert cases(found) == {
        "retries": ["system-out"],
        "limit[backward]": ["failure"],
        "growth": ["skipped"],
        "ranks": ["skipped"],
    }
    tree = ET.fromstring(render_junit(found))  # noqa: S314 - our own
    assert {key: tree.attrib[key] for key in ("tests", "failures", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "2",
    }
    assert tree.find(".//failure").attrib["message"] == FAILED.text


def test_junit_counts_what_could_not_be_told_as_failed_when_strict():
    assert cases(verification(PASSED, UNKNOWN, strict=True))["growth"] == ["failure"]


def test_hostile_text_steers_nothing():
    found = verification(HOSTILE, notes=("::set-env name=x::\x1b[2J",))
    text = render_text(found, ReportOptions())
    assert "\x1b" not in text
    assert "\x00" not in text
    assert not any(line.strip().startswith("::") for line in text.splitlines())
    assert "##[" not in text
    assert cases(found) == {"retries": ["failure"]}
    json.loads(render_json(found))
