"""The file of a family: sections that variants share are written once (docs/programs.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from oomph.tracing.programs.record import Made

#: What a file's readers must know.
SCHEMA = 1


class Store:
    """Collects variants and gives the file's contents."""

    def __init__(
        self, framework: str, family: str, versions: Mapping[str, str], ties: Mapping[str, str]
    ) -> None:
        self._head = {
            "schema": SCHEMA,
            "framework": framework,
            "family": family,
            "versions": dict(versions),
            "ties": dict(ties),
        }
        self._tables: dict[str, dict[str, int]] = {
            name: {} for name in ("layouts", "storages", "calls", "sections")
        }
        self._variants: list[dict[str, Any]] = []

    def add(self, choice: Mapping[str, Any], made: Made) -> None:
        """A variant: what it was chosen by, and its sections."""
        places = {
            name: self._place("sections", self._section(section)) for name, section in made.sections.items()
        }
        self._variants.append({**choice, "sections": places, "kept": made.kept})

    def text(self) -> str:
        """The file: JSON, a row of a table per line."""
        parts = [f" {_json(name)}: {_json(value)}" for name, value in self._head.items()]
        tables = {"variants": [_json(each) for each in self._variants], **self._tables}
        for name, rows in tables.items():
            lines = ",\n".join(f"  {row}" for row in rows)
            parts.append(f" {_json(name)}: [\n{lines}\n ]")
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def _section(self, section: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **section,
            "storages": [self._place("storages", row) for row in section["storages"]],
            "tensors": [[row[0], self._place("layouts", row[1:])] for row in section["tensors"]],
            "items": [self._item(item) for item in section["items"]],
        }

    def _item(self, item: Sequence[Any]) -> Any:
        """A drop is the storage's number n, ~n for the layer before; an operator is its call, the tensors among its
        arguments, and its results."""
        if item[0] == "drop":
            return item[1]
        if item[0] == "drop_previous":
            return ~item[1]
        tensors: list[int] = []
        call = [item[1], *(_without(part, tensors) for part in (item[2], *item[4:]))]
        return [self._place("calls", call), tensors, item[3]]

    def _place(self, table: str, row: Any) -> int:
        rows = self._tables[table]
        return rows.setdefault(_json(row), len(rows))


def _without(value: Any, tensors: list[int]) -> Any:
    """Arguments with a hole for each tensor, whose number is added to `tensors`."""
    if isinstance(value, list):
        return [_without(each, tensors) for each in value]
    if isinstance(value, dict):
        if "t" in value:
            tensors.append(value["t"])
            return {"t": 0}
        return {name: _without(each, tensors) for name, each in value.items()}
    return value


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
