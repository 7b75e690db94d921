"""The JSON Schemas that oomph publishes: read from the package, or generated from the types."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec


def published(command: str) -> str:
    """The schema file of `oomph COMMAND --format json`."""
    folder = resources.files("oomph.report") / "schema"
    return (folder / f"{command}.schema.json").read_text(encoding="utf-8")


def generated(command: str, version: str, report: type[msgspec.Struct]) -> str:
    """The schema of `report`, the document of that command; the published file must equal it."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:oomph:{command}:{version}",
        "title": f"oomph {command}, version {version}",
        **msgspec.json.schema(report),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
