"""Sizes as expressions of the dimensions, found from their values in several runs.

A tensor's shape is looked at dimension by dimension: each is a product or a small sum of the model's dimensions, which
a few runs with unrelated numbers tell without doubt. Only sizes without a shape are looked at as bytes. An expression
is taken when it gives every run's value exactly, and there are more runs than it has free numbers by three at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from oomph.memory.recipe.expression import Expression, RecipeError, call, name, number, product
from oomph.memory.recipe.functions import up

#: Coefficients beyond these would fit anything: 16/3*b is no size that a program writes.
_LARGEST_NUMERATOR = 4096
_LARGEST_DENOMINATOR = 8
_SPARE_RUNS = 3
#: What kernels round sizes up to.
_MULTIPLES = (8, 16, 32, 64, 128)

Values = tuple[int, ...]


class Fitter:
    """Knows the dimensions of each run, in order. What was found once is kept."""

    def __init__(self, runs: Sequence[Mapping[str, int]], names: Sequence[str]) -> None:
        if len(runs) < 2 + _SPARE_RUNS:
            raise RecipeError(f"{len(runs)} runs are too few to find sizes from")
        self.count = len(runs)
        self._columns = {each: tuple(run[each] for run in runs) for each in names}
        self._found: dict[tuple[Values, int], Expression | None] = {}
        self._monomials = {degree: list(self._products(degree)) for degree in range(5)}

    def bytes_of(self, shapes: Sequence[tuple[int, ...]], itemsize: int) -> Expression | None:
        """The bytes of tensors with these shapes, one per run; None when a dimension fits nothing."""
        if len({len(shape) for shape in shapes}) != 1:
            return None
        parts = [number(itemsize)]
        for values in zip(*shapes, strict=True):
            found = self.number(values)
            if found is None:
                return None
            parts.append(found)
        return product(parts)

    def number(self, values: Values, degree: int = 2) -> Expression | None:
        """An expression for these values, one per run, of products of at most `degree` dimensions in a sum; alone,
        products may have four. None when nothing fits."""
        key = (values, degree)
        if key not in self._found:
            self._found[key] = self._search(values, degree)
        return self._found[key]

    def _search(self, values: Values, degree: int) -> Expression | None:
        if len(set(values)) == 1:
            return number(values[0])
        for order in range(1, 5):
            for expression, column in self._monomials[order]:
                coefficient = _ratio(values, column)
                if coefficient is not None:
                    return expression * number(coefficient)
        return self._rounded(values) or self._sum(values, degree)

    def _rounded(self, values: Values) -> Expression | None:
        for each, column in self._columns.items():
            for multiple in _MULTIPLES:
                if tuple(up(value, multiple) for value in column) == values:
                    return call("up", name(each), number(multiple))
        return None

    def _sum(self, values: Values, degree: int) -> Expression | None:
        terms = [term for order in range(degree + 1) for term in self._monomials[order]]
        for (first, left), (second, right) in combinations(terms, 2):
            solved = _solve(values, left, right)
            if solved is not None:
                return first * number(solved[0]) + second * number(solved[1])
        return None

    def _products(self, degree: int) -> Iterator[tuple[Expression, Values]]:
        """Products of so many dimensions, those of different dimensions first."""
        choices = list(combinations_with_replacement(self._columns, degree))
        for chosen in sorted(choices, key=lambda names: degree - len(set(names))):
            column = [1] * self.count
            for each in chosen:
                column = [value * factor for value, factor in zip(column, self._columns[each], strict=True)]
            yield product(name(each) for each in chosen), tuple(column)


def _plausible(value: Fraction) -> bool:
    return abs(value.numerator) <= _LARGEST_NUMERATOR and value.denominator <= _LARGEST_DENOMINATOR


def _ratio(values: Values, column: Values) -> Fraction | None:
    """The one number by which `column` has to be multiplied, if there is one."""
    top, bottom = values[0], column[0]
    if not bottom:
        return None
    for value, factor in zip(values, column, strict=True):
        if value * bottom != factor * top:
            return None
    ratio = Fraction(top, bottom)
    return ratio if _plausible(ratio) else None


def _solve(values: Values, left: Values, right: Values) -> tuple[Fraction, Fraction] | None:
    """The two numbers with which the columns add up to the values in every run, if there are."""
    one = 0
    for two in range(1, len(values)):
        determinant = left[one] * right[two] - left[two] * right[one]
        if determinant:
            break
    else:
        return None
    first = Fraction(values[one] * right[two] - values[two] * right[one], determinant)
    second = Fraction(left[one] * values[two] - left[two] * values[one], determinant)
    if not (first and second and _plausible(first) and _plausible(second)):
        return None
    for value, mine, other in zip(values, left, right, strict=True):
        if first * mine + second * other != value:
            return None
    return first, second
