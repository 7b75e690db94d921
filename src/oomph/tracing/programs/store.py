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
        self._layouts: dict[str, int] = {}
        self._sections: dict[str, int] = {}
        self._variants: list[dict[str, Any]] = []

    def add(self, choice: Mapping[str, Any], made: Made) -> None:
        """A variant: what it was chosen by, and its sections."""
        places = {name: self._section(section) for name, section in made.sections.items()}
        self._variants.append({**choice, "sections": places, "kept": made.kept})

    def text(self) -> str:
        """The file: JSON, a section per line."""
        parts = [f" {_json(name)}: {_json(value)}" for name, value in self._head.items()]
        for name, rows in (
            ("variants", [_json(each) for each in self._variants]),
            ("layouts", list(self._layouts)),
            ("sections", list(self._sections)),
        ):
            lines = ",\n".join(f"  {row}" for row in rows)
            parts.append(f" {_json(name)}: [\n{lines}\n ]")
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def _section(self, section: Mapping[str, Any]) -> int:
        tensors = [[row[0], self._layout(row[1:])] for row in section["tensors"]]
        return _place(self._sections, _json({**section, "tensors": tensors}))

    def _layout(self, layout: Sequence[Any]) -> int:
        return _place(self._layouts, _json(list(layout)))


def _place(table: dict[str, int], text: str) -> int:
    return table.setdefault(text, len(table))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
