"""Reads programs of models with several stacks of layers (docs/programs.md, "Several stacks").

A file is as docs/programs.md describes it, with two differences: every section has numbers of its own, and `order` says
what runs: sections outside of layers by name, and stacks. A link names a section outside of layers, or a layer:
`STACK/prev`, `STACK/first`, `STACK/second`, `STACK/last`, `STACK/last but one`, `STACK/each`, `STACK/each but N`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from oomph.errors import InputError
from oomph.predict.programs.items import whole_item
from oomph.predict.programs.load import SCHEMA, Program, Section

#: The only section of a part's program.
PART = "part"
_KEYS = (
    "precision",
    "attention",
    "heads",
    "one",
    "dropout",
    "task",
    "form",
    "padded",
    "order",
    "sections",
    "kept",
)
Link = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Part:
    """One section. `tensors`: those that are another's, as (link, number there); `storages`: the same of storages.
    `exports`: numbers of its tensors that others name or the caller keeps, by whoever they are."""

    name: str
    program: Program
    tensors: Mapping[int, Link]
    storages: Mapping[int, Link]
    exports: tuple[int, ...] = ()

    @property
    def section(self) -> Section:
        """What runs."""
        return self.program.sections[PART]


@dataclass(frozen=True, eq=False)
class StackedVariant:
    """A way to run. `padded`: the attention mask has zeros. `order`: sections outside of layers, and stacks."""

    precision: str
    attention: str
    heads: str
    one: bool
    dropout: bool
    task: str
    form: str
    padded: bool
    more: Mapping[str, Any]
    order: tuple[str, ...]
    kept: Mapping[str, Link]
    _file: Mapping[str, Any] = field(repr=False)
    _row: Mapping[str, Any] = field(repr=False)
    _made: dict[str, Part] = field(default_factory=dict, repr=False)

    @property
    def stacks(self) -> tuple[str, ...]:
        """The lists of layers, in order."""
        return tuple(each for each in self.order if not each.startswith("glue "))

    def part(self, name: str) -> Part:
        """A section by name."""
        if not self._made:
            rows = self._row["sections"]
            exports = _exports(self._file, rows, self.kept)
            self._made.update(
                {each: _part(self._file, each, row, exports.get(each, ())) for each, row in rows.items()}
            )
        return self._made[name]

    def has_end(self, stack: str) -> bool:
        """Whether a stack's last layer does something else than the others."""
        return f"{stack}/end" in self._row["sections"]

    def layer(self, stack: str, number: int, depth: int) -> Part:
        """What a layer runs, of a stack of so many."""
        if number == depth - 1 and self.has_end(stack):
            return self.part(f"{stack}/end")
        return self.part(f"{stack}/{('first', 'second', 'block')[min(number, 2)]}")


@dataclass(frozen=True, eq=False)
class StackedFile:
    """All programs of a family. `ties`: parameters that are another one where the config ties them."""

    framework: str
    family: str
    versions: Mapping[str, str]
    ties: Mapping[str, str]
    variants: tuple[StackedVariant, ...]


def stacked_families() -> frozenset[str]:
    """Families of transformers that there are such programs for."""
    return _families()


@cache
def _families() -> frozenset[str]:
    folder = files("oomph.predict.programs").joinpath("stacked")
    start = "transformers-"
    return frozenset(
        each.name.removeprefix(start)[:-5] for each in folder.iterdir() if each.name.startswith(start)
    )


@cache
def load_stacks(name: str) -> StackedFile | None:
    """The file of `<framework>-<family>`; None where there is none."""
    path = files("oomph.predict.programs").joinpath("stacked").joinpath(f"{name}.json")
    return read_stacks(path.read_text(encoding="utf-8")) if path.is_file() else None


def read_stacks(text: str) -> StackedFile:
    """A file's contents. Raises InputError for a schema that this version does not know."""
    data = json.loads(text)
    if data.get("schema") != SCHEMA:
        raise InputError(f"a program file of schema {data.get('schema')}")
    variants = tuple(
        StackedVariant(
            row["precision"],
            row["attention"],
            row["heads"],
            row["one"],
            row["dropout"],
            row["task"],
            row.get("form", ""),
            row.get("padded", False),
            {key: value for key, value in row.items() if key not in _KEYS},
            tuple(row["order"]),
            {name: (each[0], each[1]) for name, each in row["kept"].items()},
            data,
            row,
        )
        for row in data["variants"]
    )
    return StackedFile(data["framework"], data["family"], data["versions"], data["ties"], variants)


def _exports(
    data: Mapping[str, Any], rows: Mapping[str, int], kept: Mapping[str, Link]
) -> dict[str, tuple[int, ...]]:
    """Numbers of each section's tensors that somebody else names."""
    found: dict[str, set[int]] = {}
    named = [
        (reader, *each[1:])
        for reader, row in rows.items()
        for each in data["sections"][row].get("tensor_links", ())
    ]
    for reader, link, number in (*named, *(("", *each) for each in kept.values())):
        for section in _meant(reader, link):
            found.setdefault(section, set()).add(number)
    return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


def _meant(reader: str, link: str) -> tuple[str, ...]:
    """The sections that a link may mean: numbers are the same in the second layer and those after it."""
    stack, _, which = link.partition("/")
    if which == "prev" and reader.endswith("/second"):
        return (f"{stack}/first",)
    if which in ("prev", "last", "last but one"):
        return (f"{stack}/second", f"{stack}/block", *((f"{stack}/end",) if which == "last" else ()))
    return (link,)


def _part(data: Mapping[str, Any], name: str, row: int, exports: tuple[int, ...]) -> Part:
    raw = data["sections"][row]
    storages = [data["storages"][each] for each in raw["storages"]]
    tensors = [[storage, *data["layouts"][layout]] for storage, layout in raw["tensors"]]
    items = [whole_item(data, item) for item in raw["items"]]
    program = Program(storages, tensors, {PART: Section(items, None, None)}, {})
    links = {at: (link, number) for at, link, number in raw.get("tensor_links", ())}
    return Part(
        name,
        program,
        links,
        {at: (link, number) for at, link, number in raw.get("storage_links", ())},
        tuple(each for each in exports if each < len(tensors) and each not in links),
    )
