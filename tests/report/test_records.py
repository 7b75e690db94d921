"""The published schema of a run directory's records."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from oomph.evidence.run.model import GpuSample
from oomph.phases import Phase
from oomph.probe.model import Gpu, Process
from oomph.report.records import FILES, read_schema, schema_text
from tests.evidence.run.making import Maker

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
DOCS = Path(__file__).parents[2] / "docs" / "schema"


def test_the_published_files_are_what_the_types_say():
    message = (
        "run: python -c 'from oomph.report.records import schema_text; print(schema_text(), end=\"\")' "
        "> src/oomph/report/schema/run.schema.json, and copy it to docs/schema/"
    )
    assert read_schema() == schema_text(), message
    assert (DOCS / "run.schema.json").read_text(encoding="utf-8") == read_schema(), message


def valid(name: str, value: object) -> bool:
    schema = {**json.loads(read_schema()), "$ref": f"#/$defs/{name}"}
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def test_every_file_of_a_run_is_valid(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    made.oom(0, Phase.BACKWARD, 1, batch={"x": (1, 2)})
    made.note(0, "warning.growth", "it grows", numbers={"bytes": 1})
    made.end(0, "oom")
    made.now(0, Phase.BACKWARD, 1)
    made.fingerprint({"versions.torch": "2.13"})
    made.gpus("host", GpuSample(1.0, 1.0, (Gpu(0, processes=(Process(1),)),)))
    made.finish(1)
    seen = set()
    for pattern, name in FILES.items():
        for path in tmp_path.glob(pattern):
            seen.add(name)
            for line in path.read_text().splitlines():
                assert valid(name, json.loads(line)), (path, line)
    assert seen == set(FILES.values())


@pytest.mark.parametrize(
    "record",
    [
        {"type": "step", "step": "one", "time": 1, "clock": 1, "seconds": 1, "counters": {}},
        {
            "type": "phase",
            "phase": "dreaming",
            "step": 0,
            "time": 1,
            "clock": 1,
            "seconds": 1,
            "counters": {},
        },
        {"type": "header"},
    ],
)
def test_what_is_not_valid(record):
    assert not valid("Record", record)


def test_fields_of_a_newer_oomph_are_allowed():
    assert valid("Record", {"type": "end", "outcome": "completed", "time": 1, "clock": 1, "weather": "fine"})
