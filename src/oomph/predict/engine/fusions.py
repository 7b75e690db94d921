"""Kernels that stand for several operators of a program: RMS norm, rotary embedding, SwiGLU.

Sources: unsloth's kernels as fms-acceleration ships them (plugins/fused-ops-and-kernels, kernels/unsloth:
rms_layernorm.py and rope_embedding.py write over the gradient and over queries and keys), Liger-Kernel
(ops/rms_norm.py, ops/rope.py, ops/swiglu.py: the same, and silu(gate) * up is made again in backward, over gate and
up).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oomph.predict.engine.compiled import numbers, packet
from oomph.predict.programs.load import Program, Section

RMS_NORM, ROPE, SWIGLU = "rms_norm", "rope", "swiglu"
_NORM_STEPS = frozenset(("aten._to_copy", "aten.pow", "aten.mean", "aten.add", "aten.rsqrt", "aten.mul"))
_ROPE_STEPS = frozenset(("aten.mul", "aten.cat", "aten.neg", "aten.slice"))


@dataclass
class _Found:
    """Operators that one kernel stands for: their places, the place where it runs, and the operator itself."""

    places: set[int]
    at: int
    item: list[Any]


def fuse(program: Program, section: Section, fusions: frozenset[str]) -> Section:
    """The section with the kernels in place of what they stand for. What is not found stays as it is."""
    if not fusions:
        return section
    made = _made(section)
    found = [
        each
        for kind, search in ((RMS_NORM, _norms), (ROPE, _ropes), (SWIGLU, _swiglus))
        if kind in fusions
        for each in search(program, section, made)
    ]
    gone = {place for each in found for place in each.places}
    storages = {
        program.tensors[number][0]
        for place in gone
        for number in section.items[place][3]
        if number is not None
    } - {program.tensors[each.item[3][0]][0] for each in found}
    instead = {each.at: each.item for each in found}
    late = _late_drops(program, section, found)
    items = []
    for place, item in enumerate(section.items):
        if place in late:
            continue
        if place in instead:
            items.append(instead[place])
            items += [section.items[each] for each, at in late.items() if at == place]
        elif place in gone or (
            item[0] == "drop" and item[1] in storages and not _read(program, section, item[1], gone)
        ):
            continue
        else:
            items.append(item)
    return Section(items, section.inlet, section.outlet)


def _late_drops(program: Program, section: Section, found: list[_Found]) -> dict[int, int]:
    """Drops of what a kernel reads later than the operators did that it stands for: their places, and where they go."""
    late: dict[int, int] = {}
    for each in found:
        read = {program.tensors[number][0] for number in numbers(each.item[2])}
        for place in range(min(each.places), each.at):
            item = section.items[place]
            if item[0] == "drop" and item[1] in read:
                late[place] = each.at
    return late


def _made(section: Section) -> dict[int, int]:
    return {
        number: place
        for place, item in enumerate(section.items)
        if item[0] == "op"
        for number in item[3]
        if number is not None
    }


def _read(program: Program, section: Section, storage: int, gone: set[int]) -> bool:
    """Whether an operator that stays makes or views this storage."""
    return any(
        program.tensors[number][0] == storage
        for place, item in enumerate(section.items)
        if item[0] == "op" and place not in gone
        for number in item[3]
        if number is not None
    )


def _norms(program: Program, section: Section, made: dict[int, int]) -> Iterator[_Found]:
    for place, item in enumerate(section.items):
        if item[0] != "op" or packet(item[1]) != "aten.mul":
            continue
        inputs = numbers(item[2])
        weights = [each for each in inputs if _is_norm_weight(program, each)]
        if len(weights) != 1 or len(inputs) != 2:
            continue
        places, source = _walk(section, made, inputs[1 - inputs.index(weights[0])], _NORM_STEPS)
        if source is not None and any(packet(section.items[each][1]) == "aten.rsqrt" for each in places):
            yield _Found(
                {*places, place}, place, ["op", "oomph.rms_norm", [{"t": source}, {"t": weights[0]}], item[3]]
            )


def _is_norm_weight(program: Program, number: int) -> bool:
    kind, _, *name = program.storages[program.tensors[number][0]]
    return kind == "parameter" and "norm" in name[0]


def _walk(
    section: Section, made: dict[int, int], start: int, steps: frozenset[str]
) -> tuple[set[int], int | None]:
    """The operators of these kinds that lead to `start`, and the one tensor that they begin with."""
    places: set[int] = set()
    sources: set[int] = set()
    stack = [start]
    while stack:
        number = stack.pop()
        place = made.get(number)
        if place is None or packet(section.items[place][1]) not in steps or _sum_of_two(section.items[place]):
            sources.add(number)
        elif place not in places:
            places.add(place)
            stack += numbers(section.items[place][2])
    return places, sources.pop() if len(sources) == 1 else None


def _sum_of_two(item: list[Any]) -> bool:
    """A residual connection, which is no part of a norm."""
    return packet(item[1]) == "aten.add" and len(numbers(item[2])) > 1


def _ropes(program: Program, section: Section, made: dict[int, int]) -> Iterator[_Found]:
    for place, item in enumerate(section.items):
        if item[0] != "op" or packet(item[1]) != "aten.add":
            continue
        places: set[int] = set()
        sources: set[int] = set()
        stack = list(numbers(item[2]))
        while stack:
            number = stack.pop()
            at = made.get(number)
            if at is None or packet(section.items[at][1]) not in _ROPE_STEPS:
                if program.tensors[number][1] == program.tensors[item[3][0]][1]:
                    sources.add(number)
                continue
            if at not in places:
                places.add(at)
                stack += numbers(section.items[at][2])
        names = [packet(section.items[each][1]) for each in places]
        if len(sources) == 1 and names.count("aten.cat") == 1 and "aten.neg" in names:
            yield _Found({*places, place}, place, ["op", "oomph.rope", [{"t": sources.pop()}], item[3]])


def _swiglus(_program: Program, section: Section, made: dict[int, int]) -> Iterator[_Found]:
    for place, item in enumerate(section.items):
        if item[0] != "op" or packet(item[1]) != "aten.mul":
            continue
        inputs = numbers(item[2])
        acted = [
            each for each in inputs if each in made and packet(section.items[made[each]][1]) == "aten.silu"
        ]
        if len(acted) == 1 and len(inputs) == 2:
            silu = made[acted[0]]
            gate = numbers(section.items[silu][2])[0]
            up = inputs[1 - inputs.index(acted[0])]
            yield _Found({silu, place}, place, ["op", "oomph.swiglu", [{"t": gate}, {"t": up}], item[3]])
