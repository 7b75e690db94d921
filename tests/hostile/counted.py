"""Counting work: how many items of lines, facts, tracebacks and exits are looked at, whatever the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex

from oomph.evidence import model
from oomph.evidence.lines import build_document
from oomph.evidence.model import Document, Evidence
from oomph.evidence.read import parse


class Meter:
    """Items looked at so far."""

    def __init__(self) -> None:
        self.items = 0


class CountedTuple(tuple[Any, ...]):
    """A tuple that tells `meter` about every item that leaves it."""

    meter: Meter

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.meter.items += 1
            yield item

    def __reversed__(self) -> Iterator[Any]:
        return iter(counted_tuple(tuple.__getitem__(self, slice(None, None, -1)), self.meter))

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        got = tuple.__getitem__(self, index)
        self.meter.items += len(got) if isinstance(index, slice) else 1
        return counted_tuple(got, self.meter) if isinstance(index, slice) else got


class CountedList(list[Any]):
    """The same for a list."""

    meter: Meter

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.meter.items += 1
            yield item

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        got = list.__getitem__(self, index)
        self.meter.items += len(got) if isinstance(index, slice) else 1
        return got


def counted_tuple(items: Any, meter: Meter) -> CountedTuple:
    made = CountedTuple(items)
    made.meter = meter
    return made


def counted_document(text: str, meter: Meter) -> Document:
    """`text` as a document whose lines are counted."""
    document = build_document("train.log", [(1, text)])
    lines = CountedList(document.lines)
    lines.meter = meter
    document.lines = lines
    return document


def counted_evidence(text: str, meter: Meter) -> Evidence:
    """The evidence of `text`; what is looked at after this is counted."""
    evidence = parse([counted_document(text, meter)])
    parts = ("failures", "tracebacks", "samples", "gpus", "gpu_processes", "tables", "exits", "facts")
    counted: dict[str, Any] = {name: counted_tuple(getattr(evidence, name), meter) for name in parts}
    made = model.Evidence(documents=evidence.documents, notes=evidence.notes, **counted)
    made.__dict__["_index"] = {
        name: {number: counted_tuple(facts, meter) for number, facts in by_document.items()}
        for name, by_document in evidence._index.items()
    }
    meter.items = 0
    return made
