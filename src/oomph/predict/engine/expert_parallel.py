"""A program as one of several expert-parallel ranks runs it, with torchtitan's dispatcher of tokens.

Each rank has a part of the experts. The rows that a rank's tokens make (one for each of a token's experts, sorted by
expert) go to the ranks of their experts in an all-to-all, are put in order of the experts there, multiplied, put back
and returned in another all-to-all. What is between the two has `routed` rows: as many as all ranks send to this one's
experts, which is what its own tokens make only where all experts are asked for equally.

Source: torchtitan/models/common/token_dispatcher.py of 2026-08 (AllToAllTokenDispatcher), as
torchtitan/distributed/expert_parallel.py before. docs/terms/expert-parallel.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from oomph.errors import UsageError
from oomph.predict.engine.compiled import numbers, packet
from oomph.predict.programs.load import Program, Section

EXCHANGE = "oomph.all_to_all"
_PRODUCT = "aten._grouped_mm"
#: Rows of all of a token's experts: what a rank's own tokens make.
_OWN = ("b", "s", "top_k")
_EXPERTS = re.compile(r"\bexperts\b")


def spread(program: Program) -> Program:
    """The program of one rank. Dimensions that it asks for beside the program's: `routed` (rows that come to this
    rank's experts) and `local_experts`. Raises UsageError where layers have no experts, or biases of experts."""
    return _Spread(program).program()


def _routed(text: str) -> str:
    """A size with the rows of this rank's experts in place of those that its tokens make."""
    factors = text.split("*")
    if "top_k" not in factors:
        return text
    rest = [each for each in factors if each not in _OWN]
    return "*".join([*rest, "routed"])


def _is_of_experts(storage: list[Any]) -> bool:
    return storage[0] == "parameter" and ".experts." in storage[2]


class _Spread:
    """The work of `spread`. Tensors and storages that are added get numbers after the program's own."""

    def __init__(self, program: Program) -> None:
        self.old = program
        self.storages = [list(each) for each in program.storages]
        self.tensors = [list(each) for each in program.tensors]

    def program(self) -> Program:
        """All sections; those of layers with experts are changed."""
        sections = {name: self._section(each) for name, each in self.old.sections.items()}
        if sections == self.old.sections:
            raise UsageError(
                "unsupported: expert parallelism of experts that were recorded one by one; `oomph trace` runs the "
                "training script itself."
            )
        of_experts = {number for number, each in enumerate(self.storages) if _is_of_experts(each)}
        for tensor in self.tensors:
            if tensor[0] in of_experts:
                for place in (1, 2):
                    if tensor[place] is not None:
                        tensor[place] = [_EXPERTS.sub("local_experts", each) for each in tensor[place]]
        for number in of_experts:
            self.storages[number][1] = _EXPERTS.sub("local_experts", str(self.storages[number][1]))
        return Program(self.storages, self.tensors, sections, self.old.kept)

    def _section(self, section: Section) -> Section:
        items = section.items
        products = [place for place, item in enumerate(items) if _is_product(item)]
        if not products:
            return section
        first, last = products[0], products[-1]
        rows, made = numbers(items[first][2])[0], items[last][3][0]
        begin = _maker(items, rows)
        self._between(items[begin + 1 : last + 1], rows)
        entered, positions, entering = self._enter(rows)
        returned, returning = self._leave(made, positions)
        middle = [_with(item, rows, entered) for item in items[begin + 1 : last + 1]]
        after = [_with(item, made, returned) for item in items[last + 1 :]]
        gone = {self.old.tensors[rows][0]: (entered, positions), self.old.tensors[made][0]: (made, returned)}
        changed = [*items[: begin + 1], *entering, *self._drops([*middle, *returning, *after], gone)]
        return Section(changed, section.inlet, section.outlet)

    def _between(self, items: list[list[Any]], rows: int) -> None:
        """What is made between the exchanges has the rows of this rank's experts. Raises UsageError for what is looked
        up by expert there."""
        for item in items:
            if item[0] != "op":
                continue
            for each in item[3]:
                if each is None or each == rows:
                    continue
                storage, shape = self.old.tensors[each][:2]
                if len(shape) < 2 or "top_k" not in "*".join(shape).split("*"):
                    continue
                if packet(item[1]) == "aten.index":
                    raise UsageError(
                        "unsupported: expert parallelism of experts that have biases; `oomph trace` runs the training "
                        "script itself."
                    )
                self._move(each, storage)

    def _move(self, tensor: int, storage: int) -> None:
        for place in (1, 2):
            if self.tensors[tensor][place] is not None:
                self.tensors[tensor][place] = [_routed(each) for each in self.old.tensors[tensor][place]]
        if self.old.storages[storage][0] == "own":
            self.storages[storage][1] = _routed(str(self.old.storages[storage][1]))

    def _enter(self, rows: int) -> tuple[int, int, list[list[Any]]]:
        """What comes to this rank's experts, in their order, and where each row was. The rows that were sent, and those
        that came, are let go when they are in order."""
        came, entered = self._like(rows, routed=True), self._like(rows, routed=True)
        positions = self._new(["routed"], "int64", "8*routed")
        return (
            entered,
            positions,
            [
                ["op", EXCHANGE, [{"t": rows}], [came]],
                ["op", "oomph.positions", [{"t": came}], [positions]],
                ["op", "aten.index.Tensor", [{"t": came}, [{"t": positions}]], [entered]],
                ["drop", self.tensors[came][0]],
                ["drop", self.old.tensors[rows][0]],
            ],
        )

    def _leave(self, made: int, positions: int) -> tuple[int, list[list[Any]]]:
        """What the experts made, in the order in which rows came, and what returns of all ranks."""
        back, returned = self._like(made, routed=True), self._like(made, routed=False)
        return (
            returned,
            [
                ["op", "aten.new_empty.default", [{"t": made}], [back]],
                ["op", "aten.index_put_.default", [{"t": back}, [{"t": positions}], {"t": made}], [back]],
                ["op", EXCHANGE, [{"t": back}], [returned]],
                ["drop", self.tensors[back][0]],
            ],
        )

    def _drops(self, items: list[list[Any]], gone: dict[int, tuple[int, int]]) -> Iterator[list[Any]]:
        """Where Python let go of the rows or of what the experts made, it now lets go of what stands for them."""
        for item in items:
            if item[0] == "drop" and item[1] in gone:
                for each in gone[item[1]]:
                    yield ["drop", self.tensors[each][0]]
            else:
                yield item

    def _like(self, tensor: int, *, routed: bool) -> int:
        _, shape, _, dtype = self.old.tensors[tensor]
        size = str(self.old.storages[self.old.tensors[tensor][0]][1])
        if not routed:
            return self._new(shape, dtype, size)
        return self._new([_routed(each) for each in shape], dtype, _routed(size))

    def _new(self, shape: list[str], dtype: str, size: str) -> int:
        self.storages.append(["own", size])
        self.tensors.append([len(self.storages) - 1, list(shape), None, dtype])
        return len(self.tensors) - 1


def _is_product(item: list[Any]) -> bool:
    return bool(item[0] == "op" and packet(item[1]) == _PRODUCT)


def _maker(items: list[list[Any]], tensor: int) -> int:
    """The place of the operator that makes a tensor."""
    return next(place for place, item in enumerate(items) if item[0] == "op" and tensor in item[3])


def _with(item: list[Any], old: int, new: int) -> list[Any]:
    """An item whose operator reads another tensor in place of one."""
    return item if item[0] != "op" else [*item[:2], _replaced(item[2], old, new), *item[3:]]


def _replaced(value: Any, old: int, new: int) -> Any:
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    if isinstance(value, dict) and value.get("t") == old:
        return {"t": new}
    return value
