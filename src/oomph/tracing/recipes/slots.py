"""Which alloc each free belongs to, said without numbers of layers: as a slot and a place in it.

Allocs that one and the same free of a recipe gives back, in different layers or steps, share a slot. Where in the slot
the block lies then has to be the same each time, from its newest or from its oldest end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oomph.memory.recipe.expression import RecipeError

#: An entry of a recipe: its section, and its place there.
Site = tuple[str, int]


@dataclass
class Played:
    """One run as sites: for each event its site, and the alloc's number (`~number` for a free)."""

    sites: list[Site] = field(default_factory=list)
    events: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Slots:
    """`of` names the slot of each alloc's and each free's site (by number), `place` where a free finds its block."""

    of: dict[Site, int]
    place: dict[Site, int]


def solve(runs: Sequence[Played]) -> Slots:
    """Slots for all runs at once. Raises RecipeError for a free whose block is not at one place each time."""
    joined = _Classes()
    for run in runs:
        born: dict[int, Site] = {}
        for site, event in zip(run.sites, run.events, strict=True):
            if event >= 0:
                born[event] = site
                joined.find(site)
            else:
                joined.join(site, born[~event])
    names: dict[Site, int] = {}
    of = {site: names.setdefault(joined.find(site), len(names)) for site in joined.sites()}
    return Slots(of, _places(runs, of))


def _places(runs: Iterable[Played], of: dict[Site, int]) -> dict[Site, int]:
    """Counted from the newest end where that is the same each time, else from the oldest."""
    newest: dict[Site, set[int]] = {}
    oldest: dict[Site, set[int]] = {}
    for run in runs:
        held: dict[int, list[int]] = {}
        for site, event in zip(run.sites, run.events, strict=True):
            slot = held.setdefault(of[site], [])
            if event >= 0:
                slot.append(event)
                continue
            at = slot.index(~event)
            newest.setdefault(site, set()).add(at - len(slot))
            oldest.setdefault(site, set()).add(at)
            del slot[at]
    places: dict[Site, int] = {}
    for site, seen in newest.items():
        if len(seen) == 1:
            places[site] = seen.pop()
        elif len(oldest[site]) == 1:
            places[site] = oldest[site].pop()
        else:
            raise RecipeError(
                f"a free in {site[0]} (entry {site[1]}) has no rule: {sorted(seen)} from the newest, "
                f"{sorted(oldest[site])} from the oldest"
            )
    return places


class _Classes:
    """Sites that are joined, and a name for each class: its first site."""

    def __init__(self) -> None:
        self._parent: dict[Site, Site] = {}

    def sites(self) -> Iterable[Site]:
        return list(self._parent)

    def find(self, site: Site) -> Site:
        parent = self._parent.setdefault(site, site)
        while parent != site:
            above = self._parent[parent]
            self._parent[site] = above
            site, parent = parent, above
        return site

    def join(self, one: Site, two: Site) -> None:
        left, right = self.find(one), self.find(two)
        if left != right:
            self._parent[left] = right
