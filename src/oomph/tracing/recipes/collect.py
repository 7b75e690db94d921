"""Recipes of several ways to train one family, put together so that what they share is there once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import msgspec

from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.instantiate import instantiate
from oomph.memory.recipe.model import (
    SCHEMA_VERSION,
    Alloc,
    Block,
    Entry,
    Keep,
    Loop,
    Part,
    Recipes,
    SpeaksFor,
    Variant,
)
from oomph.tracing.recipes.assemble import Draft
from oomph.tracing.recipes.stream import Stream


class Collection:
    """Grows by drafts; `recipes()` is all of them."""

    def __init__(self, family: str, speaks_for: SpeaksFor) -> None:
        self.family = family
        self.speaks_for = speaks_for
        self._blocks: dict[Block, int] = {}
        self._sections: dict[str, tuple[Entry, ...]] = {}
        self._names: dict[tuple[Entry, ...], str] = {}
        self._variants: list[Variant] = []

    def add(self, draft: Draft, choices: Mapping[str, object]) -> None:
        """One more way to train; `choices` are the fields of its `Variant` that say which."""
        numbers = [self._blocks.setdefault(block, len(self._blocks)) for block in draft.blocks]
        names: dict[str, str] = {}
        for key, entries in draft.sections.items():
            moved = _renumbered(entries, numbers)
            names[key] = self._names.get(moved) or self._named(key.partition(".")[0], moved)

        def parts(given: Sequence[Part]) -> tuple[Part, ...]:
            return tuple(Part(part.phase, names[part.section]) for part in given)

        variant = {"setup": parts(draft.setup), "first": parts(draft.first), "next": parts(draft.next)}
        self._variants.append(msgspec.convert({**choices, **variant}, Variant))

    def _named(self, stem: str, entries: tuple[Entry, ...]) -> str:
        number = 1 + sum(each.rpartition("-")[0] == stem for each in self._sections)
        name = self._names[entries] = f"{stem}-{number}"
        self._sections[name] = entries
        return name

    def recipes(
        self,
        dimensions: Mapping[str, str],
        fixed: Mapping[str, int],
        limits: Mapping[str, tuple[int, int, int]],
    ) -> Recipes:
        """Everything so far."""
        return Recipes(
            schema_version=SCHEMA_VERSION,
            family=self.family,
            speaks_for=self.speaks_for,
            dimensions=dict(dimensions),
            fixed=dict(fixed),
            limits=dict(limits),
            variants=tuple(self._variants),
            blocks=tuple(self._blocks),
            sections=dict(self._sections),
        )


def _renumbered(entries: Sequence[Entry], numbers: Sequence[int]) -> tuple[Entry, ...]:
    result: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Loop):
            result.append(Loop(entry.count, _renumbered(entry.entries, numbers)))
        elif isinstance(entry, (Alloc, Keep)):
            result.append(msgspec.structs.replace(entry, block=numbers[entry.block]))
        else:
            result.append(entry)
    return tuple(result)


def prove(recipes: Recipes, variant: Variant, stream: Stream) -> None:
    """Raises RecipeError, with the first difference, unless the recipe gives exactly the run's events."""
    steps = 1 + max(cut.round for cut in stream.cuts)
    made = instantiate(recipes, variant, stream.dimensions, steps)
    pairs = zip(made.number, made.size, strict=True)
    for place, (mine, real) in enumerate(zip_longest(pairs, stream.signed_sizes())):
        if mine != real:
            raise RecipeError(
                f"the recipe of {recipes.family} differs from the run at event {place}: {mine} instead of {real}, "
                f"for {dict(stream.dimensions)}"
            )
