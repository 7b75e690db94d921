"""Recipes of several ways to train one family, put together so that what they share is there once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import msgspec

from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.instantiate import doubt_bytes, instantiate
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

    def add(self, draft: Draft, choices: Mapping[str, object], capabilities: Sequence[int]) -> Variant:
        """One more way to train; `choices` are the fields of its `Variant` but for its capabilities and parts. Where
        the same choices are there with the same sections, for other GPUs, it is one recipe for all of these."""
        names: dict[str, str] = {}
        for key, entries in draft.sections.items():
            moved = self._moved(entries, draft.blocks)
            names[key] = self._names.get(moved) or self._named(key.replace("-", ".").partition(".")[0], moved)

        def parts(given: Sequence[Part]) -> tuple[Part, ...]:
            return tuple(Part(part.phase, names[part.section]) for part in given)

        order = {"setup": parts(draft.setup), "first": parts(draft.first), "next": parts(draft.next)}
        variant = msgspec.convert({**choices, **order, "capabilities": tuple(capabilities)}, Variant)
        for place, one in enumerate(self._variants):
            every = tuple(sorted({*one.capabilities, *capabilities}))
            if msgspec.structs.replace(one, capabilities=variant.capabilities) == variant:
                self._variants[place] = msgspec.structs.replace(one, capabilities=every)
                return self._variants[place]
        self._variants.append(variant)
        return variant

    def take_over(self, recipes: Recipes, variant: Variant) -> None:
        """A recipe of a file that was made before."""
        parts = (*variant.setup, *variant.first, *variant.next)
        draft = Draft(list(recipes.blocks), setup=variant.setup, first=variant.first, next=variant.next)
        draft.sections = {part.section: recipes.sections[part.section] for part in parts}
        self.add(
            draft,
            {**choices_of(variant), "limits": variant.limits, "doubt": variant.doubt},
            variant.capabilities,
        )

    def _named(self, stem: str, entries: tuple[Entry, ...]) -> str:
        number = 1 + sum(each.rpartition("-")[0] == stem for each in self._sections)
        name = self._names[entries] = f"{stem}-{number}"
        self._sections[name] = entries
        return name

    def _moved(self, entries: Sequence[Entry], blocks: Sequence[Block]) -> tuple[Entry, ...]:
        """The same entries with this collection's numbers of blocks."""
        result: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Loop):
                result.append(Loop(entry.count, self._moved(entry.entries, blocks)))
            elif isinstance(entry, (Alloc, Keep)):
                number = self._blocks.setdefault(blocks[entry.block], len(self._blocks))
                result.append(msgspec.structs.replace(entry, block=number))
            else:
                result.append(entry)
        return tuple(result)

    def recipes(
        self,
        dimensions: Mapping[str, str],
        fixed: Mapping[str, int],
        limits: Mapping[str, tuple[int, int, int]],
        refused: Mapping[str, str] | None = None,
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
            refused=dict(refused or {}),
        )


def choices_of(variant: Variant) -> dict[str, object]:
    """The fields that say which way to train a recipe is of."""
    others = ("capabilities", "setup", "first", "next", "limits", "doubt")
    return {name: value for name, value in msgspec.structs.asdict(variant).items() if name not in others}


def spelled_out(recipes: Recipes, variant: Variant) -> tuple[object, ...]:
    """A recipe without the numbers and names that depend on what else is in its file, to be compared."""

    def entries(given: Sequence[Entry]) -> tuple[object, ...]:
        return tuple(
            (entry.count, entries(entry.entries))
            if isinstance(entry, Loop)
            else (type(entry).__name__, recipes.blocks[entry.block], entry.slot)
            if isinstance(entry, (Alloc, Keep))
            else entry
            for entry in given
        )

    spelled = (
        tuple((part.phase, entries(recipes.sections[part.section])) for part in parts)
        for parts in (variant.setup, variant.first, variant.next)
    )
    return (variant.limits, variant.doubt, *spelled)


def prove(recipes: Recipes, variant: Variant, stream: Stream) -> None:
    """Raises RecipeError, with the first difference, unless the recipe gives exactly the run's events."""
    doubt = doubt_bytes(recipes, variant, stream.dimensions)
    if doubt != stream.doubt:
        raise RecipeError(
            f"the recipe's doubt is {doubt} bytes, the run's {stream.doubt}, for {stream.dimensions}"
        )
    made = instantiate(recipes, variant, stream.dimensions, stream.rounds)
    pairs = zip(made.number, made.size, strict=True)
    for place, (mine, real) in enumerate(zip_longest(pairs, stream.signed_sizes())):
        if mine != real:
            raise RecipeError(
                f"the recipe of {recipes.family} differs from the run at event {place}: {mine} instead of {real}, "
                f"for {dict(stream.dimensions)}"
            )
