"""From a recipe and a model's dimensions to the ordered allocs and frees of its training steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from oomph.errors import UsageError
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

    Raises UsageError for dimensions that the recipe does not hold for: out of its limits, of another relation of heads,
    of another GPU. Raises RecipeError where a dimension is missing, a size is not whole or negative, and where a recipe
    frees what is not there.
    """
    check(recipes, variant, dimensions)
    player = Player(recipes, dimensions)
    player.play(variant.setup)
    for step in range(steps):
        player.play(variant.next if step else variant.first)
        player.steps_done += 1
    return player.events


def doubt_bytes(recipes: Recipes, variant: Variant, dimensions: Mapping[str, int]) -> int:
    """By how much a GPU may exceed the recipe's events at any one time. Raises as `instantiate` does."""
    check(recipes, variant, dimensions)
    return parse(variant.doubt).evaluate(dimensions, FUNCTIONS)


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


def check(recipes: Recipes, variant: Variant, dimensions: Mapping[str, int]) -> None:
    """Raises UsageError, with one sentence, unless the recipe holds for these dimensions."""
    capability = dimensions.get("capability")
    if capability is not None and capability not in variant.capabilities:
        known = ", ".join(map(str, variant.capabilities))
        raise UsageError(
            f"this recipe of {recipes.family} is for compute capability {known}, not {capability}"
        )
    _within(recipes, {**recipes.limits, **variant.limits}, _checked(recipes, dimensions))
    heads, kv_heads = dimensions.get("heads"), dimensions.get("kv_heads")
    if heads is None or kv_heads is None:
        return
    if kv_heads < 1 or heads % kv_heads:
        raise UsageError(f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})")
    there = "equal" if heads == kv_heads else "single" if kv_heads == 1 else "grouped"
    if there != variant.heads:
        raise UsageError(
            f"this recipe of {recipes.family} is for {variant.heads} heads; heads = {heads} with kv_heads = {kv_heads} "
            f"are {there}"
        )


def _checked(recipes: Recipes, dimensions: Mapping[str, int]) -> dict[str, int]:
    known = {**dimensions}
    for name, value in recipes.fixed.items():
        if known.setdefault(name, value) != value:
            raise UsageError(f"these recipes of {recipes.family} are for {name} = {value}, not {known[name]}")
    _within(recipes, recipes.limits, known)
    for text, why in recipes.refused.items():
        expression = parse(text)
        if expression.names() <= known.keys() and expression.evaluate(known, FUNCTIONS):
            raise UsageError(f"these recipes of {recipes.family} do not hold here: {why}")
    return known


def _within(recipes: Recipes, limits: Mapping[str, tuple[int, int, int]], known: Mapping[str, int]) -> None:
    for name, meaning in recipes.dimensions.items():
        value = known.get(name, 1)
        least, most, multiple = limits.get(name, (1, 0, 1))
        if value < 1:
            raise UsageError(f"{name} ({meaning}) must be at least 1, not {value}")
        if name not in known or name not in limits:
            continue
        if not (least <= value <= most and value % multiple == 0):
            steps = f" in steps of {multiple}" if multiple > 1 else ""
            allowed = f"{least}" if least == most else f"from {least} to {most}{steps}"
            raise UsageError(f"{name} ({meaning}) must be {allowed} here, not {value}")
