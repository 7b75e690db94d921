"""Sizes as expressions of a model's dimensions: sums of products with exact rational coefficients.

An expression is kept as a polynomial, multiplied out and sorted, so two that are equal as polynomials are equal as
values and print the same. Its atoms are names (`b`, `s`, `hidden`) and calls of the few functions that sizes need
(`functions.py`). Evaluation is in whole numbers: a size that does not come out whole is an error, not a rounded number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from oomph.errors import InputError

#: What keeps a text from making an expression that takes for ever: terms of a sum, factors of a term.
MOST_TERMS = 200
MOST_FACTORS = 12


class RecipeError(InputError):
    """A recipe that cannot be read or used: the sentence says which part and why."""


@dataclass(frozen=True)
class Name:
    """One dimension: `b`, `s`, `hidden`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """A function of `functions.py` with its arguments; a list of expressions (a shape) is one argument."""

    function: str
    arguments: tuple[Argument, ...]

    @cached_property
    def _text(self) -> str:
        return f"{self.function}({', '.join(_argument_text(each) for each in self.arguments)})"

    def __str__(self) -> str:
        return self._text


Atom = Name | Call
#: Each term is a coefficient and its sorted atoms; an atom to the third power stands there three times.
Term = tuple[Fraction, tuple[Atom, ...]]
Functions = Mapping[str, Callable[..., int]]


@dataclass(frozen=True)
class Expression:
    """A polynomial. Build with `number`, `name`, `call`, `+`, `*` and `over`; `parse` (grammar.py) reads text."""

    terms: tuple[Term, ...]

    def __add__(self, other: Expression) -> Expression:
        return _collect((*self.terms, *other.terms))

    def __sub__(self, other: Expression) -> Expression:
        return self + other * number(-1)

    def __mul__(self, other: Expression) -> Expression:
        """The product, multiplied out. Raises RecipeError beyond MOST_TERMS or MOST_FACTORS."""
        if len(self.terms) * len(other.terms) > MOST_TERMS * 4:
            raise RecipeError(f"an expression of more than {MOST_TERMS} terms")
        return _collect(
            (left * right, (*mine, *theirs)) for left, mine in self.terms for right, theirs in other.terms
        )

    def over(self, divisor: int) -> Expression:
        """Each coefficient divided, exactly."""
        if divisor == 0:
            raise RecipeError("an expression divides by zero")
        return self * number(Fraction(1, divisor))

    @cached_property
    def _text(self) -> str:
        return _text(self)

    def __str__(self) -> str:
        return self._text

    @property
    def constant(self) -> int | None:
        """Its value where it needs no dimension, else None."""
        if not self.terms:
            return 0
        coefficient, atoms = self.terms[0]
        return (
            int(coefficient) if len(self.terms) == 1 and not atoms and coefficient.denominator == 1 else None
        )

    def names(self) -> frozenset[str]:
        """Every dimension that it speaks of."""
        found: set[str] = set()
        for _, atoms in self.terms:
            for atom in atoms:
                found |= {atom.name} if isinstance(atom, Name) else _names_in(atom)
        return frozenset(found)

    def evaluate(self, dimensions: Mapping[str, int], functions: Functions) -> int:
        """The whole number that it is for these dimensions.

        Raises RecipeError for a dimension or function that is not given, and where the result is no whole number.
        """
        total = Fraction(0)
        for coefficient, atoms in self.terms:
            product = 1
            for atom in atoms:
                product *= _value(atom, dimensions, functions)
            total += coefficient * product
        if total.denominator != 1:
            raise RecipeError(f"{self} is no whole number for {_shown(self.names(), dimensions)}")
        return total.numerator


#: What a call takes: an expression, or a list of them.
Argument = Expression | tuple[Expression, ...]


def number(value: int | Fraction) -> Expression:
    """A constant."""
    return _collect([(Fraction(value), ())])


def name(text: str) -> Expression:
    """A dimension."""
    return Expression(((Fraction(1), (Name(text),)),))


def call(function: str, *arguments: Argument) -> Expression:
    """A function of expressions."""
    return Expression(((Fraction(1), (Call(function, arguments),)),))


def product(parts: Iterable[Expression]) -> Expression:
    """All of them multiplied; 1 for none."""
    result = number(1)
    for part in parts:
        result = result * part
    return result


def _collect(terms: Iterable[Term]) -> Expression:
    table: dict[tuple[Atom, ...], Fraction] = {}
    for coefficient, atoms in terms:
        if len(atoms) > MOST_FACTORS:
            raise RecipeError(f"an expression with more than {MOST_FACTORS} factors in a term")
        key = tuple(sorted(atoms, key=str))
        table[key] = table.get(key, Fraction(0)) + coefficient
        if len(table) > MOST_TERMS:
            raise RecipeError(f"an expression of more than {MOST_TERMS} terms")
    kept = [(coefficient, atoms) for atoms, coefficient in table.items() if coefficient]
    return Expression(tuple(sorted(kept, key=_rank)))


def _rank(term: Term) -> tuple[int, list[str]]:
    """Terms of many factors first: they are the large ones."""
    return (-len(term[1]), [str(atom) for atom in term[1]])


def _value(atom: Atom, dimensions: Mapping[str, int], functions: Functions) -> int:
    if isinstance(atom, Name):
        if atom.name not in dimensions:
            raise RecipeError(f"the dimension {atom.name!r} is not given")
        return dimensions[atom.name]
    function = functions.get(atom.function)
    if function is None:
        raise RecipeError(f"{atom.function!r} is no function that sizes are made of")
    values = [
        [part.evaluate(dimensions, functions) for part in argument]
        if isinstance(argument, tuple)
        else argument.evaluate(dimensions, functions)
        for argument in atom.arguments
    ]
    try:
        return function(*values)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise RecipeError(f"{atom} cannot be computed: {error}") from error


def _names_in(atom: Call) -> set[str]:
    found: set[str] = set()
    for argument in atom.arguments:
        for part in argument if isinstance(argument, tuple) else (argument,):
            found |= part.names()
    return found


def _shown(names: Iterable[str], dimensions: Mapping[str, int]) -> str:
    return ", ".join(f"{each} = {dimensions.get(each)}" for each in sorted(names))


def _argument_text(argument: Argument) -> str:
    return f"[{', '.join(map(str, argument))}]" if isinstance(argument, tuple) else str(argument)


def _text(expression: Expression) -> str:
    if not expression.terms:
        return "0"
    parts: list[str] = []
    for position, (coefficient, atoms) in enumerate(expression.terms):
        size = abs(coefficient)
        factors = [str(size)] if size != 1 or not atoms else []
        factors += [str(atom) for atom in atoms]
        sign = "-" if coefficient < 0 else ""
        if position:
            sign = " - " if coefficient < 0 else " + "
        parts.append(sign + "*".join(factors))
    return "".join(parts)
