"""The JSON documents of `oomph runs`: valid by the published schemas, which are the types'."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oomph.diagnose.runs.diff import diff
from oomph.diagnose.runs.facts import facts_of
from oomph.diagnose.runs.model import Planned
from oomph.evidence.run.read import read_run
from oomph.report.runs.json import DOCUMENTS, diff_json, list_json, read_schema, schema_text, show_json
from oomph.report.runs.markdown import diff_markdown, list_markdown, show_markdown
from oomph.report.runs.text import RunsOptions, diff_text, list_text, show_text
from tests.recording_store.fakes import GIB, write_run

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
DOCS = Path(__file__).parents[3] / "docs" / "schema"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    paths = [
        write_run(root, 0, name="good"),
        write_run(
            root, 1, rows=8, fails_at=1, settings={"arguments.per_device_train_batch_size": "8"}, name="bad"
        ),
    ]
    return [read_run(path) for path in paths]


def valid(name: str, text: str) -> Any:
    document = json.loads(text)
    jsonschema.Draft202012Validator(json.loads(read_schema(name))).validate(document)
    return document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schemas_are_the_types(name):
    assert (
        read_schema(name) == schema_text(name) == (DOCS / f"{name}.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(read_schema(name)))


def test_list(runs):
    document = valid("runs-list", list_json([facts_of(each) for each in runs], 3, "peak > 1", ["a note"]))
    assert [each["name"] for each in document["runs"]] == ["good", "bad"]
    assert document["runs"][0]["phases"]["backward"] == 8 * GIB
    assert (document["left_out"], document["query"], document["notes"]) == (3, "peak > 1", ["a note"])


def test_show(runs):
    document = valid("runs-show", show_json(facts_of(runs[1]), runs[1], []))
    assert document["failed"]["phase"] == "backward"
    assert document["failed"]["ranks"] == [0]
    rank = document["ranks"][1]
    backward = next(each for each in rank["phases"] if each["phase"] == "backward")
    assert backward["first"]["allocated_bytes"] == 10 * GIB
    assert backward["later"]["allocated_bytes"] == 12 * GIB
    assert document["facts"]["versions.torch"] == "2.6.0+cu124"


def test_diff(runs):
    found = diff(facts_of(runs[1]), [facts_of(runs[0])])
    found = replace(found, planned=Planned(before_bytes=1, after_bytes=2, phases=(("backward", 1, 2),)))
    document = valid("runs-diff", diff_json(found, ["x"]))
    assert document["exit_code"] == 1
    assert document["suspects"][0]["change"]["fact"] == "arguments.per_device_train_batch_size"
    assert document["suspects"][0]["suspicion"] == "explains"
    assert document["suspects"][0]["expected_bytes"] == 4 * GIB
    assert document["planned"]["phases"] == [{"phase": "backward", "before_bytes": 1, "after_bytes": 2}]


@pytest.mark.parametrize("width", [40, 80, 100])
def test_text_keeps_to_its_columns(runs, width):
    good, bad = (facts_of(each) for each in runs)
    options = RunsOptions(width=width, everything=True)
    found = replace(diff(bad, [good]), planned=Planned(before_bytes=1, after_bytes=2 * GIB, why=""))
    for text in (
        list_text([bad, good], 1, options),
        show_text(bad, runs[1], options),
        diff_text(found, options),
    ):
        assert text.endswith("\n")
        assert max(len(line) for line in text.splitlines()) <= width


def test_what_the_text_says(runs):
    good, bad = (facts_of(each) for each in runs)
    options = RunsOptions()
    assert "oom in backward" in list_text([bad, good], 0, options)
    shown = show_text(bad, runs[1], options)
    assert "rank 0 ran out of memory in backward" in shown
    assert "  backward      0    10.00 GiB  12.00 GiB" in shown
    text = diff_text(diff(bad, [good]), options)
    assert "1. arguments.per_device_train_batch_size: 4 -> 8 (explains it; batch)" in text
    assert "Expected of it: +4.00 GiB; recorded in backward: +4.50 GiB." in text
    assert "\x1b[" in diff_text(diff(bad, [good]), RunsOptions(colour=True))


def test_markdown(runs):
    good, bad = (facts_of(each) for each in runs)
    assert "| run | started \\(UTC\\)" in list_markdown(
        [good, bad], 0
    ) or "| run | started (UTC)" in list_markdown([good, bad], 0)
    assert "### Peaks per phase and rank" in show_markdown(bad, runs[1], everything=True)
    text = diff_markdown(diff(bad, [good]), everything=False)
    assert "1. `arguments.per_device_train_batch_size: 4 -> 8` (explains it; batch)" in text


def test_hostile_values_stay_text(tmp_path):
    evil = "\x1b[31m::set-env name=x::|<script>`rm`\n## x"
    path = write_run(tmp_path, 0, name=evil, settings={"arguments.x": evil, "versions.torch": evil})
    other = write_run(tmp_path, 1)
    data = read_run(path)
    facts = facts_of(data)
    found = diff(facts, [facts_of(read_run(other))])
    for text in (
        list_text([facts], 0, RunsOptions()),
        show_text(facts, data, RunsOptions(everything=True)),
        diff_text(found, RunsOptions(everything=True)),
    ):
        assert "\x1b" not in text
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    for text in (list_markdown([facts], 0), show_markdown(facts, data, True), diff_markdown(found, True)):
        assert "<script>" not in text.replace("`", "") or "\\<script" in text


def test_a_thousand_ranks(tmp_path):
    path = write_run(tmp_path, 0, world=1)
    ranks = path / "ranks"
    content = (ranks / "rank-00000.jsonl").read_bytes().replace(b'"world_size":1', b'"world_size":1024')
    for rank in range(1024):
        (ranks / f"rank-{rank:05d}.jsonl").write_bytes(content.replace(b'"rank":0', b'"rank":%d' % rank))
    data = read_run(path)
    text = show_text(facts_of(data), data, RunsOptions())
    assert len(text.splitlines()) < 60
    assert "Of 1,024 ranks" in text
