"""Reads programs of denoisers (docs/diffusion.md): parts that take and hand on any number of tensors.

A file is as docs/programs.md describes it, with two differences. `order` says what runs: for each part its name, the
module that it is, or the stack of modules that it stands for. A link names a part: the last one of that name that ran.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from oomph.errors import InputError
from oomph.predict.programs.items import whole_item
from oomph.predict.programs.load import SCHEMA, Program, Section

#: The only section of a part's program.
PART = "part"


@dataclass(frozen=True, eq=False)
class Part:
    """One part, with numbers of its own. `tensors`: those that are another part's, as (part, number there); `storages`:
    the same of storages on which no such tensor lies."""

    name: str
    program: Program
    tensors: Mapping[int, tuple[str, int]]
    storages: Mapping[int, tuple[str, int]]

    @property
    def section(self) -> Section:
        """What runs."""
        return self.program.sections[PART]

    @property
    def linked(self) -> frozenset[int]:
        """Its storages that are others'."""
        return frozenset((*self.storages, *(self.program.tensors[each][0] for each in self.tensors)))


@dataclass(frozen=True)
class Entry:
    """One entry of the order: a part, and the module that it is, or the stack that it stands for."""

    name: str
    module: str
    stack: str


@dataclass(frozen=True, eq=False)
class DenoiserVariant:
    """A way to run. `more`: what it is chosen by beside precision, attention and a batch of one."""

    precision: str
    attention: str
    one: bool
    more: Mapping[str, Any]
    order: tuple[Entry, ...]
    kept: Mapping[str, tuple[str, int]]
    _file: Mapping[str, Any] = field(repr=False)
    _row: Mapping[str, Any] = field(repr=False)
    _made: dict[str, Part] = field(default_factory=dict, repr=False)

    def part(self, name: str, first: bool = False) -> Part:
        """A part by name; `first`: the first of its stack."""
        whole = f"{name}/first" if first and f"{name}/first" in self._row["sections"] else name
        known = self._made.get(whole)
        if known is None:
            raw = self._file["sections"][self._row["sections"][whole]]
            known = self._made[whole] = _part(self._file, name, raw)
        return known


@dataclass(frozen=True, eq=False)
class DenoiserFile:
    """All programs of a family."""

    family: str
    versions: Mapping[str, str]
    variants: tuple[DenoiserVariant, ...]


@cache
def load_parts(name: str) -> DenoiserFile | None:
    """The file of `<framework>-<name>`; None where there is none."""
    path = Path(__file__).parent / "denoisers" / f"{name}.json"
    return read_parts(path.read_text(encoding="utf-8")) if path.is_file() else None


def read_parts(text: str) -> DenoiserFile:
    """A file's contents. Raises InputError for a schema that this version does not know."""
    data = json.loads(text)
    if data.get("schema") != SCHEMA:
        raise InputError(f"a program file of schema {data.get('schema')}")
    known = ("precision", "attention", "one", "order", "sections", "kept")
    variants = tuple(
        DenoiserVariant(
            row["precision"],
            row["attention"],
            row["one"],
            {key: value for key, value in row.items() if key not in known},
            tuple(Entry(each["part"], each["module"], each["stack"]) for each in row["order"]),
            {name: (each[0].removesuffix("/first"), each[1]) for name, each in row["kept"].items()},
            data,
            row,
        )
        for row in data["variants"]
    )
    return DenoiserFile(data["family"], data["versions"], variants)


def _part(data: Mapping[str, Any], name: str, raw: Mapping[str, Any]) -> Part:
    storages = [data["storages"][row] for row in raw["storages"]]
    tensors = [[storage, *data["layouts"][layout]] for storage, layout in raw["tensors"]]
    items = [whole_item(data, item) for item in raw["items"]]
    program = Program(storages, tensors, {PART: Section(items, None, None)}, {})
    return Part(
        name,
        program,
        {at: (part, number) for at, part, number in raw.get("tensor_links", ())},
        {at: (part, number) for at, part, number in raw.get("storage_links", ())},
    )
