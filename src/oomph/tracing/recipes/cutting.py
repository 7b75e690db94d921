"""The sections of a step, as pieces that repeat with the layers, found in two runs and checked on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomph.memory.recipe.expression import RecipeError
from oomph.tracing.recipes import loops
from oomph.tracing.recipes.loops import Piece
from oomph.tracing.recipes.stream import Cut, Hold, Stream

#: Streams of one recipe: their numbers of layers differ, and so may everything else.
Streams = Sequence[Stream]


@dataclass(frozen=True)
class Section:
    """A section in one round. `stream` and `cut` are where its pieces lie (the longer of the two runs compared), and
    `kept` the workspaces made in it: (the place in `freed` before which each is made, the alloc's number)."""

    name: str
    stream: Stream
    cut: Cut
    pieces: tuple[Piece, ...]
    kept: tuple[tuple[int, int], ...]

    @property
    def freed(self) -> list[int]:
        """Its events but for workspaces; places in `pieces` count in these."""
        return without_kept(self.stream, self.cut)


def without_kept(stream: Stream, cut: Cut) -> list[int]:
    """The events of a part but for those of workspaces."""
    return [event for event in stream.events[cut.begin : cut.end] if not _kept(stream, event)]


def section(name: str, which: int, short: Stream, long: Stream) -> Section:
    """The section in that round, from two runs of which the longer has one layer more and all else the same."""
    before, after = short.part(name, which), long.part(name, which)
    if before is None or after is None:
        raise RecipeError(f"a run has no {name} in round {which}")
    layers = short.dimensions["layers"]
    try:
        pieces = loops.find(_tokens(short, before), _tokens(long, after), layers)
    except RecipeError as error:
        raise RecipeError(f"{name}, round {which}: {error}") from error
    kept, place = [], 0
    for event in long.events[after.begin : after.end]:
        if _kept(long, event):
            kept.append((place, event))
        else:
            place += 1
    return Section(name, long, after, tuple(pieces), tuple(kept))


def same(one: Section, two: Section) -> bool:
    """Whether two rounds of a section do the same, workspaces aside."""
    return one.pieces == two.pieces and _tokens(one.stream, one.cut) == _tokens(two.stream, two.cut)


def sites(found: Section, stream: Stream, which: int) -> Iterator[tuple[int, int]]:
    """(place in the section, event) for every event of the section in that round of any run, workspaces aside.

    Raises RecipeError where the run does something else than the section says.
    """
    cut = stream.part(found.name, which)
    if cut is None:
        raise RecipeError(f"a run has no {found.name} in round {which}")
    events = without_kept(stream, cut)
    expected = [place for _, place in loops.expand(found.pieces, stream.dimensions["layers"])]
    pattern = [_kind(found.stream, event) for event in found.freed]
    for number, place in enumerate(expected):
        if number >= len(events) or _kind(stream, events[number]) != pattern[place]:
            is_there = _kind(stream, events[number]) if number < len(events) else "the end"
            where = dict(stream.dimensions)
            raise RecipeError(
                f"{found.name} of round {which} differs at event {number} for {where}: {is_there} instead of "
                f"{pattern[place]}"
            )
        yield place, events[number]
    if len(events) != len(expected):
        raise RecipeError(f"{found.name} of round {which} goes on after event {len(expected)}")


def _kept(stream: Stream, event: int) -> bool:
    return stream.seen[event if event >= 0 else ~event].hold is Hold.KEPT


def _kind(stream: Stream, event: int) -> tuple[bool, str]:
    seen = stream.seen[event if event >= 0 else ~event]
    return event >= 0, seen.operator


def _tokens(stream: Stream, cut: Cut) -> list[tuple[bool, str, int]]:
    return [
        (*_kind(stream, event), stream.seen[event if event >= 0 else ~event].size)
        for event in without_kept(stream, cut)
    ]
