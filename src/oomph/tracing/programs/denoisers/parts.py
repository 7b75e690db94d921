"""Cuts one recorded run of a denoiser into parts: one for each module of those that were named, and what runs between
them. Unlike the sections of a decoder (cut.py), a part may take and hand on any number of tensors.

A part names tensors and storages of others by link: the part, and the number there. Modules of one list (a stack) are
parts of one name; a link to it means the last of them that ran. A parameter's cast that autocast has kept is made again
by each part that reads it: a player keeps it as autocast does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.tracing.programs.cut import NAMED, Link, Section
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.renumber import Renumber
from oomph.tracing.programs.watch import Drop, Mark, Op, Ref, Run, Storage, Tensor

#: What runs first; what runs between modules is `glue 1`, `glue 2` and so on.
BEFORE = "before"
GLUE = "glue"


@dataclass
class Span:
    """A stretch of a run. `module`: the name of the module that ran ("" between modules)."""

    module: str
    items: list[Op | Drop] = field(default_factory=list)


def spans(run: Run) -> list[Span]:
    """The stretches between marks, which are `begin NAME` and `end NAME`. What dies right after a module returned is
    part of its stretch; stretches in which nothing happens are left out. Raises ProgramError for modules that run
    within each other."""
    found = [Span("")]
    over = False
    for item in run.items:
        if isinstance(item, Mark):
            word, _, module = item.name.partition(" ")
            if word == "begin":
                if found[-1].module and not over:
                    raise ProgramError(f"{module} runs within {found[-1].module}")
                found.append(Span(module))
                over = False
            else:
                over = True
            continue
        if over and isinstance(item, Op):
            found.append(Span(""))
            over = False
        found[-1].items.append(item)
    return [each for each in found if each.items or each.module]


@dataclass
class Part:
    """One part: its section (cut.py), the module that it is ("" between modules), and its name, which all modules of a
    stack share. `first`: the first of its stack."""

    name: str
    module: str
    section: Section
    first: bool = False


def parts(
    run: Run, stacks: Sequence[str] = (), name: Callable[[str], str] | None = None
) -> tuple[list[Part], dict[str, Link]]:
    """The parts in order, and what is kept by name. `stacks`: lists of modules that do the same; `name` gives the part
    that each of their modules is, where not all do.

    Raises ProgramError where one names a tensor of a module of a stack that is not the last that ran."""
    cutter = _Cutter(run, spans(run), stacks, name or _stack)
    made = [cutter.part(number) for number in range(len(cutter.spans))]
    return made, {name: cutter.link(number, len(made)) for name, number in run.kept.items()}


def _stack(module: str) -> str:
    """The list that a module is in."""
    return module.rpartition(".")[0]


class _Cutter:
    def __init__(
        self, run: Run, found: list[Span], stacks: Sequence[str], name: Callable[[str], str]
    ) -> None:
        self.run = run
        self.name = name
        self.spans = found
        self.stacks = stacks
        self.ones: list[_One] = []
        self.tensor_home: dict[int, int] = {}
        self.storage_home: dict[int, int] = {}
        self.names = self._names()
        for place, span in enumerate(found):
            for item in span.items:
                if isinstance(item, Op):
                    for number in numbers(item):
                        self.tensor_home.setdefault(number, place)
                        self.storage_home.setdefault(run.tensors[number].storage, place)
        self.casts = _casts(run)

    def _names(self) -> list[str]:
        names, glue = [], 0
        for place, span in enumerate(self.spans):
            if span.module:
                names.append(self.name(span.module) if _stack(span.module) in self.stacks else span.module)
            elif place == 0:
                names.append(BEFORE)
            else:
                glue += 1
                names.append(f"{GLUE} {glue}")
        return names

    def part(self, place: int) -> Part:
        span, name = self.spans[place], self.names[place]
        one = _One(self, place)
        self.ones.append(one)
        for item in span.items:
            if isinstance(item, Op):
                one.section.items.append(one.operator(item))
            elif item.storage not in self.casts:
                one.section.items.append(Drop(one.storage(item.storage)))
        one.leave_out()
        return Part(name, span.module, one.section, first=name not in self.names[:place])

    def link(self, number: int, reader: int) -> Link:
        """Where a tensor is, for the part `reader`."""
        home = self._home(self.tensor_home.get(number), reader)
        return Link(self.names[home], self.ones[home].tensor(number))

    def storage_link(self, storage: int, reader: int) -> Link:
        """Where a storage is, for the part `reader`."""
        home = self._home(self.storage_home.get(storage), reader)
        return Link(self.names[home], self.ones[home].storage(storage))

    def _home(self, home: int | None, reader: int) -> int:
        if home is None or home >= len(self.ones):
            raise ProgramError("a storage dies that no part has")
        if self.names[home] in self.names[home + 1 : reader]:
            raise ProgramError(f"{self.names[home]}: what one module made is used after the next one ran")
        return home


def _casts(run: Run) -> dict[int, Op]:
    """Storages of parameters' casts, and what made them: autocast keeps them until it ends, which a player knows."""
    found = {}
    for item in run.items:
        if isinstance(item, Op) and item.name.startswith("aten._to_copy") and isinstance(item.args[0], Ref):
            source = run.tensors[item.args[0].number].storage
            if run.storages[source].kind == "parameter" and item.results[0] is not None:
                found[run.tensors[item.results[0]].storage] = item
    return found


class _One(Renumber):
    """The numbers of one part."""

    def __init__(self, cutter: _Cutter, place: int) -> None:
        self.cutter = cutter
        self.place = place
        self.section = Section(cutter.names[place])
        self.tensors: dict[int, int] = {}
        self.storages: dict[int, int] = {}

    def tensor(self, number: int) -> int:
        if number in self.tensors:
            return self.tensors[number]
        cutter = self.cutter
        tensor = cutter.run.tensors[number]
        storage = self.storage(tensor.storage)
        local = self.tensors[number] = len(self.section.tensors)
        self.section.tensors.append(Tensor(storage, tensor.shape, tensor.strides, tensor.dtype))
        foreign = cutter.tensor_home.get(number) != self.place
        if foreign and tensor.storage in cutter.casts:
            self.section.items.append(self.operator(cutter.casts[tensor.storage]))
        elif foreign and self.section.storages[storage].kind not in NAMED:
            self.section.tensor_links[local] = cutter.link(number, self.place)
        return local

    def storage(self, number: int) -> int:
        if number in self.storages:
            return self.storages[number]
        cutter = self.cutter
        storage = cutter.run.storages[number]
        kind, name = storage.kind, self.relative(storage.name)
        foreign = kind not in NAMED and cutter.storage_home.get(number) != self.place
        foreign = foreign and number not in cutter.casts
        local = self.storages[number] = len(self.section.storages)
        self.section.storages.append(Storage("link" if foreign else kind, storage.size_bytes, name))
        if foreign:
            self.section.storage_links[local] = cutter.storage_link(number, self.place)
        return local

    def leave_out(self) -> None:
        """A storage that a linked tensor lies on needs no link of its own."""
        known = {self.section.tensors[local].storage for local in self.section.tensor_links}
        for storage in known:
            self.section.storage_links.pop(storage, None)

    def relative(self, name: str) -> str:
        """A parameter's name within its module."""
        prefix = f"{self.cutter.spans[self.place].module}."
        return name.removeprefix(prefix) if len(prefix) > 1 and name.startswith(prefix) else name


def numbers(op: Op) -> Iterator[int]:
    """The tensors that an operator takes and gives."""

    def of(value: Any) -> Iterator[int]:
        if isinstance(value, Ref):
            yield value.number
        elif isinstance(value, list):
            for one in value:
                yield from of(one)

    yield from of(op.args)
    yield from of(list(op.kwargs.values()))
    yield from (number for number in op.results if number is not None)
