from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomph import __version__
from oomph.report import wire
from oomph.report.json import read_schema, render_json, schema_text
from oomph.report.options import ReportOptions
from tests.report import fakes
from tests.report.golden import assert_golden

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

DOCS = Path(__file__).parents[2] / "docs" / "schema"


def rendered(diagnosis, options: ReportOptions | None = None) -> Any:
    return json.loads(render_json(diagnosis, options or ReportOptions()))


def test_the_whole_document_without_a_failure():
    assert rendered(fakes.no_oom()) == {
        "schema_version": "1",
        "oomph_version": __version__,
        "outcome": "no_oom",
        "exit_code": 0,
        "summary": "No out-of-memory failure found in 2 files (1,204 lines)",
        "phase": None,
        "incident": None,
        "incidents": [],
        "ranks": {"first": None, "how": "", "failed": [], "consequences": [], "notes": []},
        "findings": [],
        "ruled_out": [],
        "advice": None,
        "job": [],
        "other_errors": [
            {
                "source": "rank0.log",
                "line": 990,
                "text": "RuntimeError: CUDA error: device-side assert triggered",
            }
        ],
        "notes": ["rank1.log ends in the middle of a line."],
        "sources": [
            {
                "source": name,
                "lines": lines,
                "size_bytes": 80 * lines,
                "rank": None,
                "attempt": None,
                "partial": False,
                "notes": [],
            }
            for name, lines in (("rank0.log", 1000), ("rank1.log", 204))
        ],
    }


def test_the_whole_document_of_a_failure():
    text = render_json(fakes.fatal(), ReportOptions())
    assert_golden("fatal.json", text.replace(f'"{__version__}"', '"VERSION"'))


def test_numbers_are_bytes_with_their_rounding():
    incident = rendered(fakes.fatal())["incident"]
    # 328.62 MiB, printed with two decimals: half of 0.01 MiB either way
    assert incident["numbers"]["free_bytes"] == {"bytes": round(328.62 * 2**20), "slack_bytes": 5243}
    assert incident["ledger"]["free"] == {
        "bytes": round(328.62 * 2**20),
        "slack_bytes": 5243,
        "origin": "printed",
    }
    reserved = incident["ledger"]["reserved"]
    assert reserved["origin"] == "= allocated + cached"
    assert abs(reserved["bytes"] - (76.12 * 2**30 + 737.28 * 2**20)) <= reserved["slack_bytes"]
    assert incident["ledger"]["limit"] is None
    assert incident["ledger"]["short_by_bytes"] == 580 * 2**20 - round(328.62 * 2**20)


@pytest.mark.parametrize("name", sorted(fakes.ALL))
@pytest.mark.parametrize("options", [ReportOptions(), ReportOptions(redact=True), ReportOptions(rank=1)])
def test_documents_are_valid(name, options):
    schema = json.loads(read_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = rendered(fakes.ALL[name](), options)
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
    msgspec.convert(document, wire.Report)


def test_the_schema_refuses_what_it_does_not_name():
    document = rendered(fakes.fatal())
    document["incident"]["ledger"]["extra"] = 1
    with pytest.raises(jsonschema.ValidationError, match="extra"):
        jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)


def test_every_object_of_the_schema_is_closed():
    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for value in node.values():
                yield from objects(value)
        elif isinstance(node, list):
            for value in node:
                yield from objects(value)

    found = list(objects(json.loads(read_schema())))
    assert len(found) > 15
    for node in found:
        # closed, or a map from names to values of one described shape
        assert node["additionalProperties"] is False or node["additionalProperties"]
        if node["additionalProperties"] is False:
            # What a plan of the job adds is there where the job is known: older documents stay valid.
            later = {"plan", "predicted"}
            assert sorted(node["required"]) == sorted(set(node["properties"]) - later)


def test_the_published_schema_is_that_of_the_code():
    message = (
        "run: python -c 'from oomph.report.json import schema_text; print(schema_text(), end=\"\")' "
        "> src/oomph/report/schema/explain.schema.json, and copy it to docs/schema/"
    )
    assert json.loads(read_schema()) == json.loads(schema_text()), message
    assert (DOCS / "explain.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_a_rank_filters_the_incidents():
    document = rendered(fakes.several_ranks(), ReportOptions(rank=3))
    assert [incident["rank"] for incident in document["incidents"]] == [3]
    assert document["incident"]["rank"] == 3
    assert document["ranks"]["first"] == 1


def test_consequences_are_in_order_of_ranks():
    ranks = dataclasses.replace(fakes.fatal().ranks, consequences={3: "c", 0: "a", 2: "b"})
    document = rendered(dataclasses.replace(fakes.fatal(), ranks=ranks))
    assert document["ranks"]["consequences"] == [
        {"rank": 0, "why": "a"},
        {"rank": 2, "why": "b"},
        {"rank": 3, "why": "c"},
    ]
