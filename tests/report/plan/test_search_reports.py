"""Text, JSON and Markdown of searches: what makes a job fit, the largest that fits, machines compared."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.job.model import Job, Model
from oomph.predict.model import Plan
from oomph.remedy.largest import Largest, largest
from oomph.remedy.machines import compare_machines
from oomph.remedy.search import FitResult, fit
from oomph.report.plan import search_json, search_markdown
from oomph.report.plan.fit_text import render_fit
from oomph.report.plan.fit_words import seconds
from oomph.report.plan.search_text import render_largest, render_machines
from oomph.report.plan.text import PlanOptions
from tests.remedy.jobs import EIGHT, GIB, ONE, needs, plan_of

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

DOCS = Path(__file__).parents[3] / "docs" / "schema"
WIDE = PlanOptions(width=110)


def found(job: Job = EIGHT, capacity: int = 80) -> FitResult:
    def planner(each: Job, replay: bool) -> Plan:
        del replay
        return plan_of(each, capacity * GIB, needs(each))

    return fit(job, 0.05, predictor=lambda each: max(needs(each).values()), planner=planner, most=2000)


def refused() -> FitResult:
    def planner(each: Job, replay: bool) -> Plan:
        del replay
        return Plan(each, (), GIB, None, None, (), ("the family moon",))

    return fit(ONE, predictor=lambda _: 1, planner=planner)


def test_the_first_screen_answers():
    """What does not fit and what makes it fit, first; lines to write and the time's formula below."""
    text = render_fit(found(), WIDE)
    first = text.split("\n\n")[0].replace("\n", " ")
    assert first.startswith("It does not fit in 76.00 GiB in forward; ")
    assert "makes it fit, with" in first
    assert "gradient_checkpointing=True," in text
    assert "# check: " in text
    assert "6 P N" in text
    assert "--allow method: LoRA" in text
    assert "combinations were predicted." in text


def test_what_fits_and_what_cannot():
    assert render_fit(found(capacity=400), WIDE).startswith("It fits in 380.00 GiB as it is")
    hopeless = render_fit(found(ONE, 1), WIDE)
    assert "nothing that is allowed makes it fit" in hopeless.replace("\n", " ")
    assert "comes nearest" in hopeless.replace("\n", " ")
    assert render_fit(refused(), WIDE).startswith("unsupported: the family moon")


@pytest.mark.parametrize("width", [40, 80, 110])
def test_tables_keep_their_width(width):
    """Lines to write are code and stay whole; everything else is wrapped."""
    code = [line for step in found().choices for change in step.changes for line in change.lines(EIGHT)]
    for line in render_fit(found(), PlanOptions(width=width)).splitlines():
        assert len(line) <= width or line.strip() in code or line.strip().startswith("# ")


@pytest.mark.parametrize("capacity", [1, 80, 400])
def test_json_follows_its_schema(capacity):
    document = json.loads(search_json.render_fit(found(ONE if capacity == 1 else EIGHT, capacity)))
    schema = json.loads(search_json.read_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
    assert document["exit_code"] == (1 if capacity == 1 else 0)
    assert (document["largest"], document["machines"]) == (None, None)


def test_json_of_the_others_follows_it_too():
    schema = json.loads(search_json.read_schema())

    def planner(job: Job, replay: bool) -> Plan:
        del replay
        return plan_of(job, 80 * GIB, needs(job))

    most = largest(ONE, "batch", predictor=lambda job: max(needs(job).values()), planner=planner)
    machines = compare_machines(EIGHT, ("gcp", "aws"), predictor=lambda job: max(needs(job).values()))
    for text in (
        search_json.render_largest(most, ONE),
        search_json.render_machines(machines, EIGHT),
        search_json.render_fit(refused()),
    ):
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)


def test_the_published_schema_is_that_of_the_types():
    message = (
        "Otherwise: python -c \"from oomph.report.plan.search_json import schema_text; print(schema_text(), end='')\" "
        "> src/oomph/report/schema/plan-search.schema.json, and copy it to docs/schema/"
    )
    assert search_json.schema_text() == search_json.read_schema(), message
    assert (DOCS / "plan-search.schema.json").read_text(encoding="utf-8") == search_json.read_schema(), (
        message
    )


def test_markdown_folds_the_lines_away():
    text = search_markdown.render_fit(found())
    assert text.startswith("### It does not fit")
    assert text.count("<details>") == len(found().choices)
    assert text.count("```") == 2 * len(found().choices)


def test_the_largest_in_words():
    known = Largest("batch", 12, ONE, 70 * GIB, 77 * GIB, 76 * GIB)
    text = render_largest(known, ONE, WIDE)
    assert text.startswith(
        "The largest that fits: 12 samples per GPU and forward, with 70.00 GiB of 76.00 GiB\n"
    )
    assert "One step further needs 77.00 GiB" in text
    none = Largest("seq", 0, None, None, 90 * GIB, 76 * GIB)
    assert render_largest(none, ONE, WIDE).startswith(
        "Not even 128 tokens fits in 76.00 GiB: 90.00 GiB are needed"
    )
    assert "give --gpu or --capacity" in render_largest(Largest("params", None), ONE, WIDE)
    assert "12 samples" in search_markdown.render_largest(known, ONE)


def test_machines_in_words():
    machines = compare_machines(EIGHT, ("gcp",), 0.0, predictor=lambda _: 60 * GIB)
    text = render_machines(machines, WIDE)
    assert text.startswith("It fits on ")
    assert "a2-ultragpu-8g" in text
    assert "It does not fit on 1 x " in text
    assert "does not" in render_machines(machines, dataclasses.replace(WIDE, everything=True))
    assert "a2-ultragpu-8g" in search_markdown.render_machines(machines)


def test_names_from_outside_are_harmless():
    bad = replace(EIGHT, model=replace(EIGHT.model, name="\x1b[31m</details>```::set-env"))
    assert isinstance(bad.model, Model)
    result = dataclasses.replace(found(), base=plan_of(bad, 80 * GIB, needs(bad)))
    assert "\x1b" not in render_fit(result, WIDE)
    assert "</details>```" not in search_markdown.render_fit(result)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "-"), (0.0384, "38.4 ms"), (1.5, "1.50 s"), (600, "10.0 min")]
)
def test_times_as_people_say_them(value, text):
    assert seconds(value) == text
