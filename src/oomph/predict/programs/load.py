"""Reads program files (docs/programs.md) and puts a variant together from the sections that variants share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from oomph.errors import InputError

SCHEMA = 1
#: Sections outside of layers.
_ONCE = ("before", "after", "loss")
_NAMED = ("parameter", "buffer", "input")


@dataclass(frozen=True)
class Section:
    """items, and the numbers of the tensors that come in and go on (None: none)."""

    items: list[list[Any]]
    inlet: int | None
    outlet: int | None


@dataclass(frozen=True)
class Program:
    """One variant, with one numbering for all of its sections: `storages` are [kind, bytes] or [kind, bytes, name],
    `tensors` [storage, shape, strides or None, dtype]. `kept` are tensors by name that the training loop holds."""

    storages: list[list[Any]]
    tensors: list[list[Any]]
    sections: dict[str, Section]
    kept: dict[str, int]


@dataclass(frozen=True)
class Variant:
    """What a program is chosen by; `program()` puts it together."""

    precision: str
    attention: str
    heads: str
    one: bool
    dropout: bool
    more: Mapping[str, Any]
    _file: Mapping[str, Any] = field(repr=False, compare=False)
    _row: Mapping[str, Any] = field(repr=False, compare=False)

    def program(self) -> Program:
        """The variant's program."""
        return _Joined(self._file, self._row).program()


@dataclass(frozen=True)
class ProgramFile:
    """All programs of a family. `ties`: parameters that are another one where the config ties them."""

    framework: str
    family: str
    versions: Mapping[str, str]
    ties: Mapping[str, str]
    variants: tuple[Variant, ...]


def names() -> tuple[str, ...]:
    """The files that there are, as `<framework>-<family>`."""
    return tuple(sorted(each.stem for each in Path(__file__).parent.glob("*.json")))


@cache
def load(name: str) -> ProgramFile | None:
    """The file of `<framework>-<family>`; None where there is none."""
    path = Path(__file__).parent / f"{name}.json"
    return read(path.read_text(encoding="utf-8")) if path.is_file() else None


def read(text: str) -> ProgramFile:
    """A file's contents. Raises InputError for a schema that this version does not know."""
    data = json.loads(text)
    if data.get("schema") != SCHEMA:
        raise InputError(f"a program file of schema {data.get('schema')}")
    keys = ("precision", "attention", "heads", "one", "dropout")
    variants = tuple(
        Variant(
            row["precision"],
            row["attention"],
            row["heads"],
            row["one"],
            row["dropout"],
            {key: value for key, value in row.items() if key not in (*keys, "sections", "kept")},
            data,
            row,
        )
        for row in data["variants"]
    )
    return ProgramFile(data["framework"], data["family"], data["versions"], data["ties"], variants)


class _Joined:
    """Gives every section's storages and tensors numbers of the whole program."""

    def __init__(self, data: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        self.data = data
        self.raw = {name: data["sections"][number] for name, number in row["sections"].items()}
        self.kept = row["kept"]
        self.storages: list[list[Any]] = []
        self.tensors: list[list[Any]] = []
        self.storage_of: dict[str, list[int]] = {}
        self.tensor_of: dict[str, list[int]] = {}
        self.shared: dict[tuple[str, str], int] = {}

    def program(self) -> Program:
        sections = {name: self._section(name, raw) for name, raw in self.raw.items()}
        kept = {name: self.tensor_of[section][number] for name, (section, number) in self.kept.items()}
        return Program(self.storages, self.tensors, sections, kept)

    def _section(self, name: str, raw: Mapping[str, Any]) -> Section:
        links = {at: self.storage_of[section][number] for at, section, number in raw.get("storage_links", ())}
        storages = self.storage_of[name] = []
        for at, row in enumerate(raw["storages"]):
            storages.append(links[at] if at in links else self._storage(name, self.data["storages"][row]))
        links = {at: self.tensor_of[section][number] for at, section, number in raw.get("tensor_links", ())}
        tensors = self.tensor_of[name] = []
        for at, (storage, layout) in enumerate(raw["tensors"]):
            if at in links:
                tensors.append(links[at])
                continue
            tensors.append(len(self.tensors))
            self.tensors.append([storages[storage], *self.data["layouts"][layout]])
        items = [self._item(item, storages, tensors) for item in raw["items"]]
        inlet, outlet = (None if raw[key] is None else tensors[raw[key]] for key in ("in", "out"))
        return Section(items, inlet, outlet)

    def _storage(self, section: str, row: list[Any]) -> int:
        """Outside of layers, a parameter is one storage wherever it is used."""
        key = (row[0], row[2]) if row[0] in _NAMED and section in _ONCE else None
        if key is not None and key in self.shared:
            return self.shared[key]
        self.storages.append(row)
        if key is not None:
            self.shared[key] = len(self.storages) - 1
        return len(self.storages) - 1

    def _item(self, item: Any, storages: list[int], tensors: list[int]) -> list[Any]:
        if isinstance(item, int):
            return ["drop", storages[item]] if item >= 0 else ["drop_previous", storages[~item]]
        call, used, results = item
        holes = iter(used)
        name, *arguments = (_filled(part, holes, tensors) for part in self.data["calls"][call])
        numbers = [None if number is None else tensors[number] for number in results]
        return ["op", name, arguments[0], numbers, *arguments[1:]]


def _filled(value: Any, holes: Iterator[int], tensors: list[int]) -> Any:
    if isinstance(value, list):
        return [_filled(each, holes, tensors) for each in value]
    if isinstance(value, dict):
        if "t" in value:
            return {"t": tensors[next(holes)]}
        return {name: _filled(each, holes, tensors) for name, each in value.items()}
    return value
