"""A selection of a product in which every pair of values occurs together, as far as it may and as many cases allow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
_Pair = tuple[str, int, str, int]


def pairwise(
    factors: Mapping[str, Sequence[Any]], allowed: Callable[[Row], bool], most: int | None = None
) -> list[Row]:
    """Rows of one value per factor, each with the most pairs that no row before it has; greedy, and always the same.
    `allowed` says of a partial row whether it may be part of one. `most` ends it earlier."""
    wanted = {pair for pair in _all_pairs(factors) if allowed(_row_of(factors, pair))}
    rows: list[Row] = []
    while wanted and (most is None or len(rows) < most):
        number = len(rows)
        start = sorted(wanted)[0]
        row = _filled(factors, allowed, wanted, start, number)
        if row is None:
            wanted.discard(start)
            continue
        rows.append({name: factors[name][place] for name, place in row.items()})
        wanted -= set(_pairs(row))
    return rows


def _all_pairs(factors: Mapping[str, Sequence[Any]]) -> Iterator[_Pair]:
    for one, other in itertools.combinations(sorted(factors), 2):
        for a, b in itertools.product(range(len(factors[one])), range(len(factors[other]))):
            yield one, a, other, b


def _pairs(row: Mapping[str, int]) -> Iterator[_Pair]:
    for one, other in itertools.combinations(sorted(row), 2):
        yield one, row[one], other, row[other]


def _row_of(factors: Mapping[str, Sequence[Any]], pair: _Pair) -> Row:
    one, a, other, b = pair
    return {one: factors[one][a], other: factors[other][b]}


def _filled(
    factors: Mapping[str, Sequence[Any]],
    allowed: Callable[[Row], bool],
    wanted: set[_Pair],
    start: _Pair,
    number: int,
) -> dict[str, int] | None:
    """A whole row around a pair; None where there is none."""
    row = {start[0]: start[1], start[2]: start[3]}
    for name in sorted(factors, key=lambda each: -len(factors[each])):
        if name in row:
            continue
        count = len(factors[name])
        places = [(number + place) % count for place in range(count)]
        fitting = [
            place
            for place in places
            if allowed({each: factors[each][at] for each, at in {**row, name: place}.items()})
        ]
        if not fitting:
            return None
        row[name] = max(fitting, key=lambda place: len(wanted & set(_pairs({**row, name: place}))))
    return row
