"""Sizes as sums of products of dimensions, as programs write them: `b*s*hidden`, `heads*head_dim/2`, `b*s-b`.

Programs have hundreds of them and a plan evaluates them all, so they are split once into whole numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from oomph.errors import InputError

_TERM = re.compile(r"([+-]?)([^+-]+)")
_LONGEST = 2000

#: A coefficient, a divisor and names; each name once per power.
Monomial = tuple[int, int, tuple[str, ...]]


@cache
def parse(text: str) -> tuple[Monomial, ...]:
    """The terms of an expression. Raises InputError for what is none."""
    if len(text) > _LONGEST:
        raise InputError("an expression of a program is too long to be one")
    terms = []
    rest = text.replace(" ", "")
    position = 0
    for found in _TERM.finditer(rest):
        if found.start() != position:
            raise InputError(f"{text!r} is no expression of dimensions")
        position = found.end()
        terms.append(_term(found[1], found[2], text))
    if position != len(rest) or not terms:
        raise InputError(f"{text!r} is no expression of dimensions")
    return tuple(terms)


def _term(sign: str, body: str, text: str) -> Monomial:
    coefficient, divisor, names = (-1 if sign == "-" else 1), 1, []
    for number, factor in enumerate(re.split(r"(?=[*/])", body)):
        operator, word = ("*", factor) if number == 0 else (factor[0], factor[1:])
        if word.isdecimal() and operator == "/" and int(word):
            divisor *= int(word)
        elif word.isdecimal() and operator == "*":
            coefficient *= int(word)
        elif word.isidentifier() and operator == "*":
            names.append(word)
        else:
            raise InputError(f"{text!r} is no expression of dimensions")
    return coefficient, divisor, tuple(names)


def evaluate(text: str, dimensions: Mapping[str, int]) -> int:
    """The value. Raises InputError where a dimension is missing or the value is not whole."""
    total = 0
    for coefficient, divisor, names in parse(text):
        value = coefficient
        for name in names:
            if name not in dimensions:
                raise InputError(f"the dimension {name} is not known")
            value *= dimensions[name]
        if divisor != 1:
            value, rest = divmod(value, divisor)
            if rest:
                raise InputError(f"{text} is not whole for these dimensions")
        total += value
    return total
