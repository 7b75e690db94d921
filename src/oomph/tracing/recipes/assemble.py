"""Puts one recipe together from the streams of several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from oomph.memory.recipe.expression import RecipeError, name, number
from oomph.memory.recipe.model import Alloc, Block, Entry, Free, Keep, Loop, Part
from oomph.tracing.recipes import cutting, slots
from oomph.tracing.recipes.cutting import Section
from oomph.tracing.recipes.loops import Single
from oomph.tracing.recipes.sizing import Sizing
from oomph.tracing.recipes.slots import Played, Slots
from oomph.tracing.recipes.stream import Seen, Stream

#: How slots that several sections use are named: by what they hold.
_PREFIX = {"parameters": "p", "gradients": "g", "optimizer state": "o", "activations": "a"}


@dataclass
class Draft:
    """One way to train: its blocks, its sections by name, and the order in which a run has them."""

    blocks: list[Block] = field(default_factory=list)
    sections: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    setup: tuple[Part, ...] = ()
    first: tuple[Part, ...] = ()
    next: tuple[Part, ...] = ()


@dataclass(frozen=True)
class _Turn:
    """One part of a run: the section that it is (`key`) in this round."""

    key: str
    section: str
    phase: str
    round: int


def assemble(streams: Sequence[Stream], names: Sequence[str]) -> Draft:
    """The recipe that all runs follow. The second has one layer more than the first and is else the same; the others
    may differ in any dimension. `names` are the dimensions that sizes may be made of.

    Each run has its setup (sections that come once), then the same sections in each step: three steps or more in the
    first two runs, two or more in the others. Raises RecipeError where the runs follow no common recipe, or one whose
    sizes are no expressions of the dimensions.
    """
    sections, turns = _sections(streams[0], streams[1])
    runs = [_play(sections, turns, stream) for stream in streams]
    solved = slots.solve(runs)
    sizes = Sizing(streams, runs, names).all()
    slot_names = _slot_names(solved, runs[1], streams[1])
    draft = Draft()
    numbers: dict[Block, int] = {}

    def block(size: str, seen: Seen) -> int:
        what = Block(size, seen.category, seen.label)
        if what not in numbers:
            numbers[what] = len(draft.blocks)
            draft.blocks.append(what)
        return numbers[what]

    def entry(key: str, events: Sequence[int], place: int) -> Entry:
        site, event = (key, place), events[place]
        slot = slot_names[solved.of[site]]
        if event < 0:
            return Free(slot, solved.place[site])
        return Alloc(block(str(sizes[site]), sections[key].stream.seen[event]), slot)

    workspace = streams[1].dimensions.get("blas_workspace")
    for key, found in sections.items():
        kept: dict[int, list[Entry]] = {}
        for index, (place, event) in enumerate(found.kept):
            seen = found.stream.seen[event]
            size = "blas_workspace" if seen.size == workspace else str(seen.size)
            kept.setdefault(place, []).append(Keep(block(size, seen), f"w.{found.name}.{index}"))
        draft.sections[key] = _looped(found, partial(entry, key, found.freed), kept)
    _order(draft, turns)
    return draft


def _sections(short: Stream, long: Stream) -> tuple[dict[str, Section], list[_Turn]]:
    """Every part of a run; one that does what an earlier round did is that one."""
    sections: dict[str, Section] = {}
    turns: list[_Turn] = []
    for cut in long.cuts:
        found = cutting.section(cut.section, cut.round, short, long)
        alike = (key for key, one in sections.items() if one.name == found.name and cutting.same(one, found))
        key = next(alike, cut.section if cut.round == 0 else f"{cut.section}.{cut.round}")
        sections.setdefault(key, found)
        turns.append(_Turn(key, cut.section, cut.phase, cut.round))
    return sections, turns


def _play(sections: dict[str, Section], turns: Sequence[_Turn], stream: Stream) -> Played:
    played = Played()
    rounds = stream.rounds
    for turn in turns:
        if turn.round >= rounds:
            break
        for place, event in cutting.sites(sections[turn.key], stream, turn.round):
            played.sites.append((turn.key, place))
            played.events.append(event)
    return played


def _slot_names(solved: Slots, run: Played, stream: Stream) -> dict[int, str]:
    """Slots that one section fills and empties are `t1`, `t2`, ... in each; others are named by what they hold."""
    users: dict[int, set[str]] = {}
    for site, slot in solved.of.items():
        users.setdefault(slot, set()).add(site[0])
    emptied = {solved.of[site] for site in solved.place}
    names: dict[int, str] = {}
    counts: dict[str, int] = {}
    for site, event in zip(run.sites, run.events, strict=True):
        slot = solved.of[site]
        if slot in names:
            continue
        local = len(users[slot]) == 1 and slot in emptied
        prefix = "t" if local else _PREFIX.get(stream.seen[event].category, "x")
        scope = site[0] + "/" if local else prefix
        counts[scope] = counts.get(scope, 0) + 1
        names[slot] = f"{prefix}{counts[scope]}"
    return names


def _looped(found: Section, entry: Callable[[int], Entry], kept: dict[int, list[Entry]]) -> tuple[Entry, ...]:
    """The section's entries with their repetitions, and its workspaces at their places."""
    result: list[Entry] = []
    for piece in found.pieces:
        if isinstance(piece, Single):
            result += [*kept.pop(piece.place, ()), entry(piece.place)]
            continue
        body: list[Entry] = []
        for place in range(piece.place, piece.place + piece.length):
            body += [*kept.pop(place, ()), entry(place)]
        result.append(Loop(str(name("layers") + number(piece.more)), tuple(body)))
    if kept:
        raise RecipeError(
            f"a workspace of {found.name} is first made in a later layer than the first, or at the very end"
        )
    return tuple(result)


def _order(draft: Draft, turns: Sequence[_Turn]) -> None:
    """The setup, the first step and the second; every later one must be as the second."""
    in_steps = {turn.section for turn in turns if turn.round}
    steps: dict[int, list[Part]] = {}
    for turn in turns:
        if turn.section in in_steps:
            steps.setdefault(turn.round, []).append(Part(turn.phase, turn.key))
    if len(steps) < 3 or any(each != steps[1] for number, each in steps.items() if number > 1):
        raise RecipeError("the second and the third step are not the same")
    draft.setup = tuple(Part(turn.phase, turn.key) for turn in turns if turn.section not in in_steps)
    draft.first, draft.next = tuple(steps[0]), tuple(steps[1])
