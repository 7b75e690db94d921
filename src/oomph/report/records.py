"""The published JSON Schema of a run directory's records (`schema/run.schema.json`), generated from their types."""

from __future__ import annotations

from typing import Any

import msgspec

from oomph.evidence.run.model import VERSION, Fingerprint, GpuSample, Now, Record, Run, RunEnd
from oomph.report import schemas

#: What stands where: the schema's own table of contents.
FILES = {
    "run.json": "Run",
    "ranks/rank-*.jsonl": "Record",
    "ranks/rank-*.now": "Now",
    "gpus/*.jsonl": "GpuSample",
    "fingerprint/rank-*.json": "Fingerprint",
    "end.json": "RunEnd",
}


def read_schema() -> str:
    """The published schema. A record is valid against the definition that `FILES` names for its file."""
    return schemas.published("run")


def schema_text() -> str:
    """The schema, generated; the published file must equal it. Fields and records that it does not name are allowed:
    readers pass over what they do not know."""
    (record, *_), definitions = msgspec.json.schema_components(
        [Record, Run, Now, GpuSample, Fingerprint, RunEnd], ref_template="#/$defs/{name}"
    )
    definitions = {"Record": record, **definitions}
    listed = "; ".join(f"{file}: #/$defs/{name}" for file, name in FILES.items())
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:oomph:run:{VERSION}",
        "title": f"oomph run directory, version {VERSION}",
        "description": f"One definition for each kind of file; of .jsonl files for each line. {listed}",
        "$ref": "#/$defs/Record",
        "$defs": definitions,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
