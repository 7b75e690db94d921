"""Several runs of one section, with numbers that agree in all runs, become one with expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from oomph.memory.recipe.expression import Call, Expression, number, product
from oomph.tracing.programs.cut import Section
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.watch import Drop, Op, Ref, Tensor
from oomph.tracing.recipes.fit import Fitter

ITEM = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp64": 8,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


@lru_cache(maxsize=8)
def _fitter(runs: tuple[tuple[tuple[str, int], ...], ...], names: tuple[str, ...]) -> Fitter:
    """What a fitter has found it remembers, and most models have the same sizes."""
    return Fitter([dict(run) for run in runs], names)


class Symbols:
    """Finds expressions. Knows the dimensions of each run, in order."""

    def __init__(self, runs: Sequence[Mapping[str, int]], names: Sequence[str]) -> None:
        self.fitter = _fitter(tuple(tuple(sorted(run.items())) for run in runs), tuple(names))

    def size(self, values: Sequence[int], what: str, degree: int = 3) -> Expression:
        """The expression that has these values. Raises ProgramError where there is none."""
        found = self.fitter.number(tuple(values), degree)
        if found is None:
            raise ProgramError(f"{what}: {tuple(values)} is no expression of the dimensions")
        return found

    def section(self, runs: Sequence[Section]) -> dict[str, Any]:
        """The section as docs/programs.md describes it, links apart. Raises ProgramError where the runs differ in more
        than sizes."""
        model = runs[0]
        for other in runs[1:]:
            _agree(model, other)
        shapes = [self._shape([run.tensors[at] for run in runs]) for at in range(len(model.tensors))]
        result: dict[str, Any] = {
            "storages": [self._storage(runs, at, shapes) for at in range(len(model.storages))],
            "tensors": [
                [tensor.storage, *self._layout([run.tensors[at] for run in runs], shapes[at])]
                for at, tensor in enumerate(model.tensors)
            ],
            "items": [self._item([run.items[at] for run in runs]) for at in range(len(model.items))],
            "in": model.inlet,
            "out": model.outlet,
        }
        for key, links in (("tensor_links", model.tensor_links), ("storage_links", model.storage_links)):
            if links:
                result[key] = [[at, link.section, link.number] for at, link in links.items()]
        return result

    def _shape(self, tensors: Sequence[Tensor]) -> list[Expression]:
        return [
            self.size(values, "a size") for values in zip(*(tensor.shape for tensor in tensors), strict=True)
        ]

    def _layout(self, tensors: Sequence[Tensor], shape: list[Expression]) -> tuple[Any, Any, str]:
        texts = [text(each) for each in shape]
        if all(_contiguous(tensor) for tensor in tensors):
            return texts, None, tensors[0].dtype
        strides = [
            self._stride(values, tensors, shape)
            for values in zip(*(tensor.strides for tensor in tensors), strict=True)
        ]
        return texts, [text(each) for each in strides], tensors[0].dtype

    def _stride(
        self, values: tuple[int, ...], tensors: Sequence[Tensor], shape: list[Expression]
    ) -> Expression:
        for sizes in _subsets(len(shape)):
            products = tuple(_times(tensor.shape[at] for at in sizes) for tensor in tensors)
            if products == values:
                return product([number(1), *(shape[at] for at in sizes)])
        return self.size(values, "a stride")

    def _storage(self, runs: Sequence[Section], at: int, shapes: list[list[Expression]]) -> list[Any]:
        model = runs[0].storages[at]
        sizes = [run.storages[at].size_bytes for run in runs]
        found: Expression | None = None
        for place, tensor in enumerate(runs[0].tensors):
            if tensor.storage == at and all(
                _times(run.tensors[place].shape) * ITEM[tensor.dtype] == size
                for run, size in zip(runs, sizes, strict=True)
            ):
                found = product([number(ITEM[tensor.dtype]), *shapes[place]])
                break
        size = found or self.size(sizes, f"the bytes of a {model.kind} storage")
        return [model.kind, text(size), *([model.name] if model.name else [])]

    def _item(self, items: Sequence[Op | Drop]) -> list[Any]:
        first = items[0]
        if isinstance(first, Drop):
            return ["drop_previous" if first.previous else "drop", first.storage]
        ops = [item for item in items if isinstance(item, Op)]
        args = [self._argument(values) for values in zip(*(op.args for op in ops), strict=True)]
        result: list[Any] = ["op", first.name, args, first.results]
        if first.kwargs:
            result.append({name: self._argument([op.kwargs[name] for op in ops]) for name in first.kwargs})
        return result

    def _argument(self, values: Sequence[Any]) -> Any:
        first = values[0]
        if isinstance(first, Ref):
            return {"t": first.number}
        if isinstance(first, list):
            return [self._argument(each) for each in zip(*values, strict=True)]
        if all(value == first for value in values):
            return first
        if all(type(value) is int for value in values):
            return {"e": text(self.size(values, "an argument"))}
        return None


class Numbers(Symbols):
    """For a single run: sizes stay numbers."""

    def __init__(self) -> None:
        """Knows nothing of dimensions."""

    def size(self, values: Sequence[int], what: str, degree: int = 3) -> Expression:
        """The number."""
        del what, degree
        return number(values[0])


def _agree(one: Section, other: Section) -> None:
    """The same operators on the same tensors."""
    if _structure(one) != _structure(other):
        for mine, its in zip(_structure(one), _structure(other), strict=False):
            if mine != its:
                raise ProgramError(f"{one.name}: what runs depends on the dimensions: {mine} and {its}")
        raise ProgramError(f"{one.name}: what runs depends on the dimensions")


def _structure(section: Section) -> list[Any]:
    result: list[Any] = []
    for item in section.items:
        if isinstance(item, Drop):
            result.append(("drop", item.storage, item.previous))
        else:
            result.append((item.name, _form(item.args), _form(list(item.kwargs.values())), item.results))
    result.append([(each.kind, each.name) for each in section.storages])
    result.append([(each.storage, len(each.shape), each.dtype) for each in section.tensors])
    result.append([section.tensor_links, section.storage_links, section.inlet, section.outlet])
    return result


def _form(value: Any) -> Any:
    if isinstance(value, list):
        return [_form(one) for one in value]
    return ("t", value.number) if isinstance(value, Ref) else type(value)


def _contiguous(tensor: Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _times(values: Any) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Places of a shape, those further right first and few before many."""
    places = range(count - 1, -1, -1)
    everything = [tuple(place for place in places if mask >> place & 1) for mask in range(1 << count)]
    return iter(sorted(everything, key=lambda chosen: (len(chosen), [-place for place in chosen])))


def text(expression: Expression) -> str:
    """As docs/programs.md has expressions: `b*s*hidden`, `heads*head_dim/2`, `b*s-b`."""
    parts = []
    for coefficient, atoms in expression.terms:
        if any(isinstance(atom, Call) for atom in atoms):
            raise ProgramError(f"{expression} is rounded, which expressions of programs are not")
        parts.append(_term(coefficient, [str(atom) for atom in atoms]))
    return "".join(parts).removeprefix("+") or "0"


def _term(coefficient: Fraction, names: list[str]) -> str:
    sign = "-" if coefficient < 0 else "+"
    top = abs(coefficient.numerator)
    factors = [str(top), *names] if top != 1 or not names else names
    below = f"/{coefficient.denominator}" if coefficient.denominator != 1 else ""
    return f"{sign}{'*'.join(factors)}{below}"
