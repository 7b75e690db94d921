"""Cuts one recorded forward pass into sections, each with numbers of its own.

A section names what it shares with others: parameters, buffers and inputs by name, `in` (what the section before hands
on), and by link what an earlier section made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.renumber import Renumber
from oomph.tracing.programs.watch import Drop, Mark, Op, Ref, Run, Storage, Tensor

NAMED = ("parameter", "buffer", "input")


@dataclass(frozen=True)
class Link:
    """A tensor or a storage of another section."""

    section: str
    number: int


@dataclass
class Section:
    """One section of one run. Storages of kind `in` and `link` are not its own; `tensor_links` tells which of its
    tensors are those of another section, `storage_links` the same of storages."""

    name: str
    storages: list[Storage] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    tensor_links: dict[int, Link] = field(default_factory=dict)
    storage_links: dict[int, Link] = field(default_factory=dict)
    items: list[Op | Drop] = field(default_factory=list)
    inlet: int | None = None
    outlet: int | None = None


@dataclass
class _Span:
    name: str
    items: list[Op | Drop]
    inlet: int | None
    outlet: int | None


def sections(run: Run, layers: str, kinds: Sequence[str] = ()) -> tuple[dict[str, Section], dict[str, Link]]:
    """before, block, after and loss; and `first` where the first layer does something else. Also what is kept. `kinds`:
    the section that each layer is, where there are several; the second layer of a kind stands for it.

    Raises ProgramError where layers of a kind differ after the first, or one reads what another made."""
    spans = _spans(run)
    count = sum(1 for span in spans if _is_layer(span.name))
    kinds = kinds or ("block",) * count
    cutter = _Cutter(run, layers, spans)
    result = {"before": cutter.section("before", "before")}
    every = [cutter.section(f"layer {layer}", kind, keep=False) for layer, kind in enumerate(kinds)]
    models = {kind: _second(kinds, kind) for kind in kinds}
    if not _as_block(every[0], every[models[kinds[0]]]):
        result["first"] = cutter.section("layer 0", "first")
    for kind, layer in models.items():
        result[kind] = cutter.section(f"layer {layer}", kind)
    for layer in range(1, count):
        _same(result[kinds[layer]], every[layer], layers)
    result["after"] = cutter.section("after", "after")
    result["loss"] = cutter.section("loss", "loss")
    return result, {name: cutter.link(number) for name, number in run.kept.items()}


def _second(kinds: Sequence[str], kind: str) -> int:
    return [layer for layer, each in enumerate(kinds) if each == kind][1]


def _spans(run: Run) -> list[_Span]:
    """The items between marks. What layers made and dies after the last one returned, before anything else runs, is
    part of that layer: so it is with the others."""
    spans = [_Span("before", [], None, None)]
    homes: dict[int, str] = {}
    last = _last(run)
    over = False
    for item in run.items:
        span = spans[-1]
        if isinstance(item, Mark):
            over = item.name == f"end {last}"
            if item.name.startswith("end "):
                span.outlet = item.tensor
            elif item.name == "head":
                span.outlet = item.tensor
                spans.append(_Span("loss", [], item.tensor, None))
            else:
                if span.name == "before":
                    span.outlet = item.tensor
                spans.append(_Span(item.name, [], item.tensor, None))
            if over:
                spans.append(_Span("after", [], item.tensor, None))
            continue
        if isinstance(item, Op):
            over = False
            for number in _numbers(item):
                homes.setdefault(run.tensors[number].storage, span.name)
        of_layer = over and isinstance(item, Drop) and _is_layer(homes.get(item.storage, ""))
        (spans[-2] if of_layer else span).items.append(item)
    names = [span.name for span in spans]
    if "loss" not in names or "after" not in names or len(set(names)) != len(names):
        raise ProgramError(
            f"the layers and the output layer did not run once each and in order: {', '.join(names)}"
        )
    return spans


def _last(run: Run) -> str:
    """The number of the layer that ran last."""
    numbers = [item.name.split()[1] for item in run.items if isinstance(item, Mark) and _is_layer(item.name)]
    return numbers[-1] if numbers else ""


class _Cutter:
    """Numbers what a span names, in the order in which it does."""

    def __init__(self, run: Run, layers: str, spans: list[_Span]) -> None:
        self.run = run
        self.layers = layers
        self.spans = {span.name: span for span in spans}
        self.made: dict[str, _One] = {}
        self.numbered: dict[str, _One] = {}
        self.storage_home: dict[int, str] = {}
        self.tensor_home: dict[int, str] = {}
        for span in spans:
            for item in span.items:
                if isinstance(item, Op):
                    for number in _numbers(item):
                        self.tensor_home.setdefault(number, span.name)
                        self.storage_home.setdefault(run.tensors[number].storage, span.name)

    def section(self, span_name: str, name: str, keep: bool = True) -> Section:
        """Numbers a span. `keep`: later sections may name what it has."""
        span = self.spans[span_name]
        one = _One(self, span, Section(name))
        if span.inlet is not None:
            one.section.inlet = one.tensor(span.inlet)
        for item in span.items:
            if isinstance(item, Op):
                one.section.items.append(one.operator(item))
            elif (drop := one.dropped(item.storage)) is not None:
                one.section.items.append(drop)
        if span.outlet is not None:
            one.section.outlet = one.tensor(span.outlet)
        self.numbered[span_name] = one
        if keep:
            self.made[span_name] = one
        return one.section

    def link(self, number: int) -> Link:
        """Where a tensor is, for whoever is not of its section. Raises ProgramError for one that a layer made."""
        one = self._section_of(self.tensor_home.get(number, ""))
        return Link(one.section.name, one.tensors[number])

    def storage_link(self, storage: int) -> Link:
        """Where a storage is, for a tensor of another section. Raises ProgramError for one that a layer made."""
        one = self._section_of(self.storage_home.get(storage, ""))
        return Link(one.section.name, one.storages[storage])

    def dying(self, storage: int) -> tuple[str, Link]:
        """The span that a storage is from, which dies in another, and where it is: for all layers in the block."""
        home = self.storage_home.get(storage, "")
        one = self.made.get(home) or self.numbered.get(home)
        if one is None or storage not in one.storages:
            raise ProgramError("a storage dies that no section has")
        return home, Link(one.section.name, one.storages[storage])

    def _section_of(self, home: str) -> _One:
        one = self.made.get(home)
        if one is None or (_is_layer(home) and one.section.name != "first"):
            raise ProgramError("a tensor that a layer made is used outside of it, beside what it returns")
        return one


class _One(Renumber):
    """The numbers of one section."""

    def __init__(self, cutter: _Cutter, span: _Span, section: Section) -> None:
        self.cutter = cutter
        self.span = span
        self.section = section
        self.tensors: dict[int, int] = {}
        self.storages: dict[int, int] = {}

    def tensor(self, number: int) -> int:
        if number in self.tensors:
            return self.tensors[number]
        run = self.cutter.run
        tensor = run.tensors[number]
        storage = self.storage(tensor.storage)
        local = self.tensors[number] = len(self.section.tensors)
        self.section.tensors.append(Tensor(storage, tensor.shape, tensor.strides, tensor.dtype))
        if (
            self.section.storages[storage].kind == "link"
            and self.cutter.tensor_home.get(number) != self.span.name
        ):
            self.section.tensor_links[local] = self.cutter.link(number)
        return local

    def storage(self, number: int, link: Link | None = None) -> int:
        """The number of a storage; `link` is where it is, if that was found out."""
        if number in self.storages:
            return self.storages[number]
        run = self.cutter.run
        storage = run.storages[number]
        kind, name = storage.kind, self.relative(storage.name)
        inlet = self.span.inlet
        if kind not in NAMED and inlet is not None and number == run.tensors[inlet].storage:
            kind = "in"
        elif kind not in NAMED and self.cutter.storage_home.get(number) != self.span.name:
            link = link or self.cutter.storage_link(number)
            kind = "link"
        local = self.storages[number] = len(self.section.storages)
        self.section.storages.append(Storage(kind, storage.size_bytes, name))
        if link is not None:
            self.section.storage_links[local] = link
        return local

    def dropped(self, number: int) -> Drop | None:
        """The drop of a storage; None where it was dropped already, in another layer."""
        if number in self.storages or self.cutter.run.storages[number].kind in NAMED:
            return Drop(self.storage(number))
        home, link = self.cutter.dying(number)
        if _is_layer(home) and _is_layer(self.span.name):
            if int(home.split()[1]) + 1 != int(self.span.name.split()[1]):
                raise ProgramError(f"what {home} made dies in {self.span.name}")
            return Drop(link.number, previous=True)
        if link in self.section.storage_links.values():
            return None
        return Drop(self.storage(number, link))

    def relative(self, name: str) -> str:
        """A name inside its layer."""
        prefix = f"{self.cutter.layers}."
        if _is_layer(self.span.name) and name.startswith(prefix):
            number, _, rest = name.removeprefix(prefix).partition(".")
            if number == self.span.name.removeprefix("layer "):
                return rest
        return name


def _is_layer(span_name: str) -> bool:
    return span_name.startswith("layer ")


def _numbers(op: Op) -> Iterator[int]:
    def of(value: Any) -> Iterator[int]:
        if isinstance(value, Ref):
            yield value.number
        elif isinstance(value, list):
            for one in value:
                yield from of(one)

    yield from of(op.args)
    yield from of(list(op.kwargs.values()))
    yield from (number for number in op.results if number is not None)


def _as_block(first: Section, block: Section) -> bool:
    """Whether the first layer does what the others do. Its input may live on: the model holds it. None is before it."""
    if block.inlet is None:
        return False
    ours = [item for item in block.items if not (isinstance(item, Drop) and item.previous)]
    inlet = Drop(block.tensors[block.inlet].storage)
    return any(
        _alike(Section(**{**vars(block), "items": items}), first)
        for items in (ours, [item for item in ours if item != inlet])
    )


def _alike(one: Section, other: Section) -> bool:
    """The same, though what they take from `before` may be another of the same kind: one mask or the other."""
    if list(one.tensor_links) != list(other.tensor_links) or list(one.storage_links) != list(
        other.storage_links
    ):
        return False
    return (
        Section(**{**vars(other), "tensor_links": one.tensor_links, "storage_links": one.storage_links})
        == one
    )


def _same(block: Section, other: Section, layers: str) -> None:
    if _alike(block, other):
        return
    for number, (mine, its) in enumerate(zip(block.items, other.items, strict=False)):
        if mine != its:
            raise ProgramError(f"{layers}: layers differ at item {number}: {mine} and {its}")
    raise ProgramError(f"{layers}: layers differ: {len(block.items)} and {len(other.items)} items")
