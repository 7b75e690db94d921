from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from oomph.report.snapshot.json import document, read_schema, render_json, schema_text
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.view import prepare_all
from oomph.units import GIB, MIB
from tests.report.snapshot import fakes
from tests.report.snapshot.test_text import REPORTS

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

DOCS = Path(__file__).parents[3] / "docs" / "schema"


def answer(report, **options) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_json(report, SnapshotOptions(**options)))
    return loaded


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid(name):
    schema = json.loads(read_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(answer(REPORTS[name]()), schema, jsonschema.Draft202012Validator)


def test_the_schema_refuses_what_it_does_not_name():
    report = answer(fakes.full())
    report["snapshots"][0]["devices"][0]["extra"] = 1
    with pytest.raises(jsonschema.ValidationError, match="extra"):
        jsonschema.validate(report, json.loads(read_schema()), jsonschema.Draft202012Validator)


def test_the_published_schema_is_that_of_the_code():
    message = (
        "run: python -c 'from oomph.report.snapshot.json import schema_text; print(schema_text(), end=\"\")' "
        "> src/oomph/report/schema/snapshot.schema.json, and copy it to docs/schema/"
    )
    assert json.loads(read_schema()) == json.loads(schema_text()), message
    assert (DOCS / "snapshot.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_the_numbers_of_a_failure():
    report = answer(fakes.full())
    assert (report["schema_version"], report["exit_code"]) == ("1", 1)
    snapshot = report["snapshots"][0]
    device = snapshot["devices"][snapshot["shown"]]
    failure = device["failure"]
    assert failure["verdict"] == "full"
    assert failure["request_bytes"] == 1024 * MIB
    assert failure["short_by_bytes"] == (1024 - 356) * MIB
    third = report["frames"][report["stacks"][failure["stack"]][2]]
    assert third == {
        "function": "forward",
        "file": "/workspace/gpt/model.py",
        "line": 212,
    }
    assert failure["ruled_out"][0]["cause"] == "fragmentation"
    assert device["ledger"]["allocated"]["bytes"] == 76 * GIB + 512 * MIB
    assert device["phases"] == {
        "load": 14 * GIB,
        "forward": 24 * GIB,
        "optimizer": 28 * GIB,
        "backward": 10 * GIB,
    }
    assert sum(share["bytes"] for share in device["shares"]) == 76 * GIB + 512 * MIB
    assert [trial["fails_at"] for trial in device["what_if"]["trials"]] == [7800, 7800, 7655]
    assert device["what_if"]["worth_trying"] is None
    assert snapshot["findings"][0]["code"] == "OOM201"
    assert snapshot["advice"]["first"]["paste"] == "model.gradient_checkpointing_enable()"


def test_each_stack_and_each_frame_is_there_once():
    report = answer(fakes.full())
    holders = report["snapshots"][0]["devices"][0]["holders"]
    # STEP and TRAIN, the four of an activation, LOAD, NATIVE alone, BLOCK and TRAIN, none.
    assert [holder["stack"] is None for holder in holders] == [False] * 5 + [True]
    assert len(report["stacks"]) == 5
    assert len(report["frames"]) == len({json.dumps(frame) for frame in report["frames"]}) == 6
    told = [
        [report["frames"][place]["function"] for place in report["stacks"][one["stack"]]]
        for one in holders[:5]
    ]
    assert [len(functions) for functions in told] == [2, 4, 1, 1, 2]
    assert told[0] == ["step", "train"]


def test_a_pool_says_what_is_cached_in_it():
    # 60 GiB reserved, 59 GiB allocated.
    pools = answer(fakes.no_failure())["snapshots"][0]["devices"][0]["pools"]
    assert [(pool["pool"], pool["cached_bytes"]) for pool in pools] == [([0, 0], GIB), ([0, 1], GIB)]


def test_several_snapshots_and_one_that_could_not_be_read():
    views = prepare_all([fakes.no_failure(), fakes.full()], SnapshotOptions())
    report = json.loads(document(views, unreadable=["x.pickle is empty."]))
    jsonschema.validate(report, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert report["exit_code"] == 1
    assert [one["exit_code"] for one in report["snapshots"]] == [0, 1]
    assert report["unreadable"] == ["x.pickle is empty."]
