"""Cuts one recorded forward pass of a model with several stacks of layers into sections, each with numbers of its own.

A stack's first two layers and the others have a section each: `STACK/first`, `STACK/second`, `STACK/block`, and the
last one `STACK/end` where it does something else. What runs outside of layers is `glue 0`, `glue 1` and so on. What a
section shares with others it names by link: another section outside of layers, or a layer: `STACK/prev` is the one that
ran before, `STACK/first` and `STACK/second` those, and for who comes after the stack `STACK/last`, `STACK/last but
one`, and `STACK/each` (all from the third on), `STACK/each but 1` and `STACK/each but 2` (without the last, or the last
two).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.tracing.programs.cut import NAMED, Link, Section
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.renumber import Renumber
from oomph.tracing.programs.watch import Drop, Mark, Op, Ref, Run, Storage, Tensor

#: Layers of each stack in a recorded model: the third and the fourth have to be alike.
LAYERS = 5
Place = tuple[str, int]


@dataclass
class Span:
    """A stretch of a run: layer `number` of `stack`, or (stack "") what runs between."""

    stack: str
    number: int
    items: list[Op | Drop] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its section."""
        if not self.stack:
            return f"glue {self.number}"
        return f"{self.stack}/{('first', 'second', 'block')[min(self.number, 2)]}"


def spans(run: Run) -> list[Span]:
    """The stretches between marks, which are `begin STACK NUMBER` and `end STACK NUMBER`. What layers made and dies
    after one returned, before anything else runs, is part of it. Raises ProgramError for layers within each other."""
    found, glue, over = [Span("", 0)], 0, False

    def between() -> Span:
        nonlocal glue
        glue += 1
        return Span("", glue)

    late: list[Op | Drop] = []
    homes: dict[int, Span] = {}
    for item in run.items:
        if isinstance(item, Mark):
            word, stack, number = item.name.rsplit(" ", 2)
            if word == "begin":
                if found[-1].stack and not over:
                    raise ProgramError(f"a layer of {stack} runs within one of {found[-1].stack}")
                if found[-1].stack == stack:
                    found[-1].items += late
                elif late:
                    found.append(between())
                    found[-1].items += late
                late = []
                found.append(Span(stack, int(number)))
            over = word == "end"
            continue
        if isinstance(item, Op):
            if over:
                found.append(between())
                found[-1].items += late
                late, over = [], False
            for each in numbers(item):
                homes.setdefault(run.tensors[each].storage, found[-1])
        foreign = over and isinstance(item, Drop) and not _near(homes.get(item.storage), found[-1])
        (late if foreign else found[-1].items).append(item)
    return found


def _near(home: Span | None, layer: Span) -> bool:
    """Whether it is the layer itself or the one before it, or of its stack at all while that goes on."""
    return (
        home is not None
        and home.stack == layer.stack
        and (home.number >= layer.number - 1 or layer.number < LAYERS - 1)
    )


def order(run: Run) -> list[str]:
    """What runs, in order: stretches outside of layers, and stacks."""
    names = [span.stack or span.name for span in spans(run)]
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


def sections(run: Run, stacks: Sequence[str]) -> tuple[dict[str, Section], dict[str, Link]]:
    """The sections by name, and what is kept. Raises ProgramError where a stack's layers differ after the second, or
    are linked in a way that links have no name for."""
    cutter = _Cutter(run, spans(run), stacks)
    result: dict[str, Section] = {}
    for place in range(len(cutter.spans)):
        span, section = cutter.spans[place], cutter.section(place)
        if span.name not in result:
            result[span.name] = section
        elif section != result[span.name] and span.stack and span.number == LAYERS - 1:
            result[f"{span.stack}/end"] = section
        elif section != result[span.name]:
            raise ProgramError(_difference(span, result[span.name], section))
    return result, {name: cutter.link(number, len(cutter.spans)) for name, number in run.kept.items()}


def _difference(span: Span, known: Section, other: Section) -> str:
    for number, (mine, its) in enumerate(zip(known.items, other.items, strict=False)):
        if mine != its:
            return f"{span.stack}: layers differ at item {number}: {mine} and {its}"
    return f"{span.stack}: layers differ: {len(known.items)} and {len(other.items)} items, or in their links"


class _Cutter:
    def __init__(self, run: Run, found: list[Span], stacks: Sequence[str]) -> None:
        self.run = run
        self.spans = found
        self.stacks = tuple(stacks)
        self.ones: list[_One] = []
        self.tensor_home: dict[int, int] = {}
        self.storage_home: dict[int, int] = {}
        for place, span in enumerate(found):
            for item in span.items:
                if isinstance(item, Op):
                    for number in numbers(item):
                        self.tensor_home.setdefault(number, place)
                        self.storage_home.setdefault(run.tensors[number].storage, place)

    def section(self, place: int) -> Section:
        one = _One(self, place)
        self.ones.append(one)
        for item in self.spans[place].items:
            if isinstance(item, Op):
                one.section.items.append(one.operator(item))
            else:
                one.drop(item.storage)
        return one.section

    def link(self, number: int, reader: int) -> Link:
        """Where a tensor is, for the stretch `reader`."""
        home = self._home(self.tensor_home.get(number))
        return Link(self._name(home, reader), self.ones[home].tensor(number))

    def storage_link(self, storage: int, reader: int) -> Link:
        """Where a storage is, for the stretch `reader`."""
        home = self._home(self.storage_home.get(storage))
        return Link(self._name(home, reader), self.ones[home].storage(storage))

    def _home(self, home: int | None) -> int:
        if home is None or home >= len(self.ones):
            raise ProgramError("a storage dies that no section has")
        return home

    def _name(self, home: int, reader: int) -> str:
        """What a stretch is called by another."""
        span = self.spans[home]
        if not span.stack:
            return span.name
        inside = reader < len(self.spans) and self.spans[reader].stack == span.stack
        if inside:
            steps = self.spans[reader].number - span.number
            if steps == 1:
                return f"{span.stack}/prev"
            if span.number > 1:
                raise ProgramError(f"{span.stack}: a layer names what another made, {steps} layers before it")
        if span.number < 2:
            return span.name
        if span.number < LAYERS - 2:
            raise ProgramError(f"{span.stack}: layer {span.number} is named from outside")
        return f"{span.stack}/{'last' if span.number == LAYERS - 1 else 'last but one'}"


class _One(Renumber):
    """The numbers of one stretch."""

    def __init__(self, cutter: _Cutter, place: int) -> None:
        self.cutter = cutter
        self.place = place
        self.section = Section(cutter.spans[place].name)
        self.tensors: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.each: set[Link] = set()

    def tensor(self, number: int) -> int:
        if number in self.tensors:
            return self.tensors[number]
        tensor = self.cutter.run.tensors[number]
        storage = self.storage(tensor.storage)
        local = self.tensors[number] = len(self.section.tensors)
        self.section.tensors.append(Tensor(storage, tensor.shape, tensor.strides, tensor.dtype))
        foreign = self.cutter.tensor_home.get(number) != self.place
        if foreign and self.section.storages[storage].kind not in NAMED:
            self.section.tensor_links[local] = self.cutter.link(number, self.place)
        return local

    def storage(self, number: int) -> int:
        if number in self.storages:
            return self.storages[number]
        cutter = self.cutter
        storage = cutter.run.storages[number]
        foreign = storage.kind not in NAMED and cutter.storage_home.get(number) != self.place
        local = self.storages[number] = len(self.section.storages)
        kind = "link" if foreign else storage.kind
        self.section.storages.append(Storage(kind, storage.size_bytes, self.relative(storage.name)))
        if foreign:
            self.section.storage_links[local] = cutter.storage_link(number, self.place)
        return local

    def drop(self, number: int) -> None:
        """Of all layers from the third on one drop stands for the others'."""
        cutter = self.cutter
        if cutter.run.storages[number].kind in NAMED:
            return
        home = cutter.storage_home.get(number)
        span = cutter.spans[home] if home is not None else None
        mine = cutter.spans[self.place]
        if span is None or span.number < 2 or not span.stack or mine.stack == span.stack:
            self.section.items.append(Drop(self.storage(number)))
            return
        assert home is not None
        local = cutter.ones[home].storage(number)
        left = self._left(local, span.stack)
        if span.number >= LAYERS - left:
            self.section.items.append(Drop(self.storage(number)))
            return
        link = Link(f"{span.stack}/each" + (f" but {left}" if left else ""), local)
        if link not in self.each:
            self.each.add(link)
            here = len(self.section.storages)
            self.section.storages.append(Storage("link", cutter.run.storages[number].size_bytes, ""))
            self.section.storage_links[here] = link
            self.section.items.append(Drop(here))

    def _left(self, local: int, stack: str) -> int:
        """How many of a stack's last layers remain, where those from the third on up to them let go of a storage here
        by one drop."""
        cutter = self.cutter
        dying = {item.storage for item in cutter.spans[self.place].items if isinstance(item, Drop)}
        found = [
            any(here == local and number in dying for number, here in cutter.ones[place].storages.items())
            for place, span in enumerate(cutter.spans)
            if span.stack == stack and span.number > 1
        ]
        return len(found) - (found.index(False) if False in found else len(found))

    def relative(self, name: str) -> str:
        """A parameter's name within its layer."""
        span = self.cutter.spans[self.place]
        prefix = f"{span.stack}.{span.number}."
        return name.removeprefix(prefix) if span.stack else name


def numbers(op: Op) -> list[int]:
    """The tensors that an operator takes and gives."""
    found: list[int] = []

    def of(value: Any) -> None:
        if isinstance(value, Ref):
            found.append(value.number)
        elif isinstance(value, list):
            for one in value:
                of(one)

    of(op.args)
    of(list(op.kwargs.values()))
    return [*found, *(number for number in op.results if number is not None)]
