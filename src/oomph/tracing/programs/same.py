"""Whether a program for any batch does for a batch of one what one recorded there does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oomph.memory.recipe.expression import Expression, number
from oomph.memory.recipe.grammar import parse
from oomph.tracing.programs.record import Made

Section = dict[str, Any]
#: What a size is taken for: an expression, or its number.
Value = Callable[[str], Any]


def same_for_one(general: Made, one: Made) -> bool:
    """The same operators on the same tensors, and the same bytes once b is 1. Strides of sizes of 1 mean nothing."""
    if list(general.sections) != list(one.sections) or general.kept != one.kept:
        return False
    return all(_same(general.sections[name], one.sections[name], _with_one) for name in one.sections)


def same_at(section: Section, run: Section, dimensions: Mapping[str, int]) -> bool:
    """Whether `run`, recorded at these dimensions and with numbers for sizes, is what the section says of them."""

    def value(text: str) -> int:
        return parse(text).evaluate(dimensions, {})

    return _same(section, run, value)


def _same(general: Section, one: Section, value: Value) -> bool:
    if any(general.get(key) != one.get(key) for key in ("in", "out", "tensor_links", "storage_links")):
        return False
    if [_plain(item) for item in general["items"]] != [_plain(item) for item in one["items"]]:
        return False
    if len(general["storages"]) != len(one["storages"]) or len(general["tensors"]) != len(one["tensors"]):
        return False
    storages = zip(general["storages"], one["storages"], strict=True)
    return all(_storage(*pair, value) for pair in storages) and all(
        _tensor(*pair, value) for pair in zip(general["tensors"], one["tensors"], strict=True)
    )


def _storage(general: list[Any], one: list[Any], value: Value) -> bool:
    return general[0] == one[0] and general[2:] == one[2:] and bool(value(general[1]) == value(one[1]))


def _tensor(general: list[Any], one: list[Any], value: Value) -> bool:
    if (general[0], general[3]) != (one[0], one[3]):
        return False
    shape = [value(size) for size in general[1]]
    if shape != [value(size) for size in one[1]]:
        return False
    return _strides(general, shape, value) == _strides(one, shape, value)


def _strides(tensor: list[Any], shape: list[Any], value: Value) -> list[Any]:
    if tensor[2] is not None:
        strides = [value(stride) for stride in tensor[2]]
    else:
        strides, step = [], value("1")
        for size in reversed(shape):
            strides.insert(0, step)
            step = step * size
    return [None if size == value("1") else stride for size, stride in zip(shape, strides, strict=True)]


def _with_one(text: str) -> Expression:
    """The expression where b is 1."""
    total = number(0)
    for coefficient, atoms in parse(text).terms:
        total = total + Expression(((coefficient, tuple(atom for atom in atoms if str(atom) != "b")),))
    return total


def _plain(item: list[Any]) -> Any:
    """An item without the numbers among its arguments, which follow from shapes."""
    if item[0] != "op":
        return item
    return [item[1], _tensors(item[2]), item[3], _tensors(list(item[4].values())) if len(item) > 4 else []]


def _tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(each) for each in value]
    return value if isinstance(value, dict) and "t" in value else None
