"""Finds what repeats with the number of layers, by laying the run of a model over that of one with a layer more.

Two sequences agree until the shorter leaves the layers. There the longer one has one repetition more: the length for
which what follows agrees longest again. Walking back from there finds all repetitions before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomph.memory.recipe.expression import RecipeError

Token = object


@dataclass(frozen=True)
class Single:
    """One event: its place in the longer sequence."""

    place: int


@dataclass(frozen=True)
class Repeat:
    """`length` events from `place` of the longer sequence, repeated `layers + more` times."""

    place: int
    length: int
    more: int


Piece = Single | Repeat


def find(short: Sequence[Token], long: Sequence[Token], layers: int) -> list[Piece]:
    """The pieces of `long`, the run with `layers + 1` layers; `short` is that with `layers`.

    Raises RecipeError where the two differ by anything else than repetitions.
    """
    left, right = _numbered(short, long)
    pieces: list[Piece] = []
    one = two = 0
    while True:
        same = _agree(left, one, right, two)
        one, place, begin = one + same, two + same, two
        if one == len(left) and place == len(right):
            pieces += [Single(each) for each in range(begin, place)]
            return pieces
        length = _inserted(left, one, right, place, begin)
        if not length:
            raise RecipeError(
                f"runs of {layers} and {layers + 1} layers differ at event {place} by more than repetitions: "
                f"{_at(short, one)} and {_at(long, place)}"
            )
        first, copies = place, 0
        while first - length >= begin and right[first - length : first] == right[place : place + length]:
            first -= length
            copies += 1
        pieces += [Single(each) for each in range(begin, first)]
        pieces.append(Repeat(first, length, copies - layers))
        two = place + length


def _inserted(left: list[int], one: int, right: list[int], place: int, begin: int) -> int:
    """How many events from `place` are one repetition more; 0: none would explain the difference."""
    best = (0, 0)
    for length in range(1, min(place - begin, len(right) - place) + 1):
        if right[place - 1] != right[place + length - 1] or right[place - length] != right[place]:
            continue
        if right[place - length : place] != right[place : place + length]:
            continue
        after = place + length
        follows = _agree(left, one, right, after)
        if one + follows == len(left) and after + follows == len(right):
            return length
        best = max(best, (follows, -length))
    return -best[1]


def _agree(left: list[int], one: int, right: list[int], two: int) -> int:
    """For how many events two sequences agree from these places on."""
    count, most = 0, min(len(left) - one, len(right) - two)
    while count < most and left[one + count] == right[two + count]:
        count += 1
    return count


def _numbered(*sequences: Sequence[Token]) -> list[list[int]]:
    numbers: dict[Token, int] = {}
    return [[numbers.setdefault(token, len(numbers)) for token in sequence] for sequence in sequences]


def _at(sequence: Sequence[Token], place: int) -> str:
    return str(sequence[place]) if place < len(sequence) else "the end"


def expand(pieces: Sequence[Piece], layers: int) -> Iterator[tuple[int, int]]:
    """For a model of `layers`: each event's piece, and its place in the longer sequence that the pieces are of (the
    first repetition's for those of a repeat)."""
    for number, piece in enumerate(pieces):
        if isinstance(piece, Single):
            yield number, piece.place
        else:
            for _ in range(layers + piece.more):
                for place in range(piece.place, piece.place + piece.length):
                    yield number, place
