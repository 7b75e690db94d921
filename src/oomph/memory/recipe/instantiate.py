"""From a recipe and a model's dimensions to the ordered allocs and frees of its training steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.grammar import parse
from oomph.memory.recipe.model import Alloc, Entry, Free, Keep, Loop, Part, Recipes, Variant

#: A model of a thousand layers has a million events in ten steps; what is far beyond is no model.
MOST_EVENTS = 5_000_000


@dataclass
class Events:
    """The events of one device, one entry per event in each column.

    `number` is that of the block, counted by allocation from 0; a free of block n has `~n`. `size` is its bytes, `what`
    the index of its `Block` in the recipe file, `phase` the phase's name and `step` the optimizer steps done before.
    """

    number: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    what: list[int] = field(default_factory=list)
    phase: list[str] = field(default_factory=list)
    step: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.number)

    def peak_bytes(self) -> int:
        """The most that was allocated at once: the sum of what was requested, before any rounding."""
        now = most = 0
        for number, size in zip(self.number, self.size, strict=True):
            now += size if number >= 0 else -size
            most = max(most, now)
        return most


def instantiate(recipes: Recipes, variant: Variant, dimensions: Mapping[str, int], steps: int = 2) -> Events:
    """The events of loading a model of these dimensions and of its first `steps` training steps.

    Raises RecipeError where a dimension is missing, below 1 or not the one that the recipe is for, where a size is not
    whole or negative, and where a recipe frees what is not there.
    """
    capability = dimensions.get("capability")
    if capability is not None and capability not in variant.capabilities:
        known = ", ".join(map(str, variant.capabilities))
        raise RecipeError(
            f"this recipe of {recipes.family} is for compute capability {known}, not {capability}"
        )
    player = Player(recipes, dimensions)
    player.play(variant.setup)
    for step in range(steps):
        player.play(variant.next if step else variant.first)
        player.steps_done += 1
    return player.events


class Player:
    """Plays parts of a recipe one after another; `events` grows. `steps_done` is written to each event."""

    def __init__(self, recipes: Recipes, dimensions: Mapping[str, int]) -> None:
        self.recipes = recipes
        self.dimensions = _checked(recipes, dimensions)
        self.events = Events()
        self.steps_done = 0
        self._sizes: list[int | None] = [None] * len(recipes.blocks)
        self._slots: dict[str, list[int]] = {}
        self._bytes: list[int] = []
        self._whats: list[int] = []

    def play(self, parts: Iterable[Part]) -> None:
        """The events of these parts. What they leave in slots is there for the parts that follow."""
        for part in parts:
            before = len(self.events)
            self._entries(self.recipes.sections[part.section])
            count = len(self.events) - before
            self.events.phase += [part.phase] * count
            self.events.step += [self.steps_done] * count

    def _entries(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if isinstance(entry, Alloc):
                self._alloc(entry.block, entry.slot)
            elif isinstance(entry, Free):
                self._free(entry.slot, entry.place)
            elif isinstance(entry, Keep):
                if not self._slots.get(entry.slot):
                    self._alloc(entry.block, entry.slot)
            else:
                self._loop(entry)

    def _loop(self, loop: Loop) -> None:
        count = parse(loop.count).evaluate(self.dimensions, FUNCTIONS)
        if len(self.events) + count * len(loop.entries) > MOST_EVENTS:
            raise RecipeError(f"more than {MOST_EVENTS:,} events: these dimensions are no model's")
        for _ in range(count):
            self._entries(loop.entries)

    def _alloc(self, what: int, slot: str) -> None:
        size = self._sizes[what]
        if size is None:
            size = self._sizes[what] = self._size(what)
        number = -1
        if size:
            number = len(self._bytes)
            self._bytes.append(size)
            self._whats.append(what)
            self.events.number.append(number)
            self.events.size.append(size)
            self.events.what.append(what)
        self._slots.setdefault(slot, []).append(number)

    def _size(self, what: int) -> int:
        block = self.recipes.blocks[what]
        size = parse(block.size).evaluate(self.dimensions, FUNCTIONS)
        if size < 0:
            raise RecipeError(f"the size {block.size} is negative for these dimensions")
        return size

    def _free(self, slot: str, place: int) -> None:
        held = self._slots.get(slot, [])
        if not -len(held) <= place < len(held):
            raise RecipeError(f"the recipe frees what is not there: slot {slot!r}, place {place}")
        number = held.pop(place)
        if number >= 0:
            self.events.number.append(~number)
            self.events.size.append(self._bytes[number])
            self.events.what.append(self._whats[number])


def _checked(recipes: Recipes, dimensions: Mapping[str, int]) -> dict[str, int]:
    known = {**dimensions}
    for name, value in recipes.fixed.items():
        if known.setdefault(name, value) != value:
            raise RecipeError(
                f"these recipes of {recipes.family} are for {name} = {value}, not {known[name]}"
            )
    for name, meaning in recipes.dimensions.items():
        value = known.get(name, 1)
        least, most, multiple = recipes.limits.get(name, (1, 0, 1))
        if value < 1:
            raise RecipeError(f"{name} ({meaning}) must be at least 1, not {value}")
        if name in recipes.limits and not (least <= value <= most and value % multiple == 0):
            steps = f" in steps of {multiple}" if multiple > 1 else ""
            raise RecipeError(f"{name} ({meaning}) must be from {least} to {most}{steps} here, not {value}")
    for text, why in recipes.refused.items():
        if parse(text).evaluate(known, FUNCTIONS):
            raise RecipeError(f"these recipes of {recipes.family} do not hold here: {why}")
    return known
