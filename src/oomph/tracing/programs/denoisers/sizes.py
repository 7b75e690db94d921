"""Sizes of a model whose widths are numbers: whole multiples of products of a few dimensions, and sums of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from oomph.memory.recipe.expression import Expression, name, number, product
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.symbols import Symbols

#: Sizes are of four dimensions of the batch at most: sequences, and each side of two images that attend to each other.
_DEGREE = 5
_LARGEST_DENOMINATOR = 8


class Sizes(Symbols):
    """Finds expressions as Symbols does, but with factors as large as widths are."""

    def __init__(self, runs: Sequence[Mapping[str, int]], names: Sequence[str]) -> None:
        self._count = len(runs)
        self._columns = {each: [run[each] for run in runs] for each in names}
        self._found: dict[tuple[int, ...], Expression | None] = {}
        self._products = list(self._made())

    def size(self, values: Sequence[int], what: str, degree: int = 3) -> Expression:
        """The expression that has these values. Raises ProgramError where there is none."""
        del degree
        key = tuple(values)
        if key not in self._found:
            self._found[key] = self._search(key)
        found = self._found[key]
        if found is None:
            raise ProgramError(f"{what}: {key} is no expression of the dimensions")
        return found

    def _made(self) -> Iterator[tuple[Expression, list[int]]]:
        for degree in range(_DEGREE + 1):
            for chosen in combinations_with_replacement(self._columns, degree):
                column = [1] * self._count
                for each in chosen:
                    column = [a * b for a, b in zip(column, self._columns[each], strict=True)]
                yield product([number(1), *(name(each) for each in chosen)]), column

    def _search(self, values: tuple[int, ...]) -> Expression | None:
        if len(set(values)) == 1:
            return number(values[0])
        for expression, column in self._products:
            ratio = Fraction(values[0], column[0])
            if ratio.denominator <= _LARGEST_DENOMINATOR and all(
                ratio * each == value for value, each in zip(values, column, strict=True)
            ):
                return expression * number(ratio)
        for (first, left), (second, right) in combinations(self._products, 2):
            factors = _solved(values, left, right)
            if factors is not None:
                return first * number(factors[0]) + second * number(factors[1])
        return None


def _solved(values: Sequence[int], left: Sequence[int], right: Sequence[int]) -> tuple[int, int] | None:
    """The two whole numbers with which the columns add up to the values, if there are."""
    determinant = left[0] * right[1] - left[1] * right[0]
    if not determinant:
        return None
    first = Fraction(values[0] * right[1] - values[1] * right[0], determinant)
    second = Fraction(left[0] * values[1] - left[1] * values[0], determinant)
    if first.denominator != 1 or second.denominator != 1:
        return None
    if any(first * a + second * b != value for value, a, b in zip(values, left, right, strict=True)):
        return None
    return int(first), int(second)
