"""What a recipe is: the ordered allocs and frees of one way to train a class of models, as data.

Blocks are told apart by *slots*. An alloc puts its block into a slot, which holds any number of blocks in the order of
their coming; a free takes one out, counted from its newest or its oldest end. A loop over the layers so needs no
numbers of layers: forward fills a slot layer by layer, backward empties it from the newest end.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from oomph.memory.recipe.expression import RecipeError

SCHEMA_VERSION = 1

Size = Annotated[str, Meta(description="bytes, as an expression of the dimensions: `2*b*s*hidden`")]
Slot = Annotated[str, Meta(description="where the block is kept until it is freed")]
Number = Annotated[int, Meta(ge=0)]


class Block(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is allocated: its size, what it is for (a category), and the module or operator that it comes from."""

    size: Size
    category: str
    label: str


class Alloc(msgspec.Struct, frozen=True, array_like=True, tag="+", forbid_unknown_fields=True):
    """Allocates `blocks[block]` into `slot`. A block of 0 bytes is no event, and neither is its free."""

    block: Number
    slot: Slot


class Keep(msgspec.Struct, frozen=True, array_like=True, tag="keep", forbid_unknown_fields=True):
    """Allocates `blocks[block]` into `slot` unless something is there: a workspace, made once and kept."""

    block: Number
    slot: Slot


class Free(msgspec.Struct, frozen=True, array_like=True, tag="-", forbid_unknown_fields=True):
    """Frees what `slot` holds at `place`: -1 is the newest, -2 the one before it; 0 is the oldest."""

    slot: Slot
    place: int = -1


class Loop(msgspec.Struct, frozen=True, array_like=True, tag="loop", forbid_unknown_fields=True):
    """Repeats `entries` `count` times, an expression of the dimensions (`layers - 1`); 0 or less: not at all."""

    count: str
    entries: tuple[Entry, ...]


Entry = Alloc | Keep | Free | Loop


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a run: the phase that it belongs to and the name of its section."""

    phase: str
    section: str


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to train. `method` is full or lora, `precision` fp32, bf16 or bf16-autocast, `checkpointing` whether
    each layer is computed again in backward. `heads` says how kv_heads is to heads: equal, grouped (fewer) or single;
    `tied` whether the output layer shares the embedding's weight. `setup` happens once, then `first` (the first step),
    then `next` for each further step. `capabilities` are the compute capabilities (10 * major + minor) that it was
    traced for: others may choose other kernels. `limits` are narrower ones than the file's, for this recipe alone.
    `doubt` is by how much kernels may exceed what is told here at any one time: workspaces that only cuDNN knows."""

    method: str
    precision: str
    checkpointing: bool
    attention: str
    optimizer: str
    heads: str
    tied: bool
    capabilities: tuple[int, ...]
    setup: tuple[Part, ...]
    first: tuple[Part, ...]
    next: tuple[Part, ...]
    limits: dict[str, tuple[int, int, int]] = {}
    doubt: Size = "0"


class SpeaksFor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose sequence it is: the versions that were traced, and the model's class."""

    torch: str
    transformers: str
    peft: str
    class_name: str


class Recipes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All recipes of one family of models. `dimensions` says what each name in an expression means, `fixed` the values
    that hold for these recipes alone, `limits` the least and the greatest value of a dimension that they were made
    for, and what it must be a multiple of. `refused` are expressions that must be 0, each with what is the matter when
    it is not: dimensions for which other kernels run."""

    schema_version: int
    family: str
    speaks_for: SpeaksFor
    dimensions: dict[str, str]
    fixed: dict[str, int]
    limits: dict[str, tuple[int, int, int]]
    variants: tuple[Variant, ...]
    blocks: tuple[Block, ...]
    sections: dict[str, tuple[Entry, ...]]
    refused: dict[str, str] = {}

    def variant(
        self, capability: int | None = None, batch: int | None = None, **choices: str | bool
    ) -> Variant:
        """The recipe for these choices (fields of `Variant`) on a GPU of this compute capability and for this many
        sequences; of those that are left open, the first. Raises RecipeError, naming those there are, when there is
        none."""
        for each in self.variants:
            if all(getattr(each, name) == value for name, value in choices.items()):
                if capability not in (None, *each.capabilities):
                    continue
                least, most, _ = each.limits.get("b", (1, 0, 1))
                if batch is None or "b" not in each.limits or least <= batch <= most:
                    return each
        there = "; ".join(describe(each) for each in self.variants)
        wanted = [f"{name} {value}" for name, value in choices.items()]
        wanted += [] if capability is None else [f"compute capability {capability}"]
        wanted += [] if batch is None else [f"a batch of {batch}"]
        raise RecipeError(f"no recipe of {self.family} for {', '.join(wanted)}. There are: {there}")


def describe(variant: Variant) -> str:
    """A variant's choices in words."""
    checkpointing = "checkpointing" if variant.checkpointing else "no checkpointing"
    tied = "tied" if variant.tied else "untied"
    least, most, _ = variant.limits.get("b", (1, 0, 1))
    batch = (
        ""
        if "b" not in variant.limits
        else ", a batch of one"
        if most == 1
        else f", batches of {least} or more"
    )
    return (
        f"{variant.method}, {variant.precision}, {checkpointing}, {variant.attention}, {variant.optimizer}, "
        f"{variant.heads} heads, {tied}, compute capability {', '.join(map(str, variant.capabilities))}{batch}"
    )


def decode(data: bytes | str) -> Recipes:
    """A recipe file's content. Raises RecipeError for anything else than recipes of this version that name only
    blocks and sections that are there."""
    try:
        recipes = msgspec.json.decode(data, type=Recipes)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecipeError(f"this is no recipe: {error}") from error
    if recipes.schema_version != SCHEMA_VERSION:
        raise RecipeError(
            f"recipes of version {recipes.schema_version}; this oomph reads version {SCHEMA_VERSION}"
        )
    for variant in recipes.variants:
        for part in (*variant.setup, *variant.first, *variant.next):
            if part.section not in recipes.sections:
                raise RecipeError(f"the section {part.section!r} is missing")
    for name, entries in recipes.sections.items():
        _check(name, entries, len(recipes.blocks))
    return recipes


def _check(section: str, entries: tuple[Entry, ...], blocks: int, depth: int = 0) -> None:
    if depth > 4:
        raise RecipeError(f"loops in loops in the section {section!r}")
    for entry in entries:
        if isinstance(entry, Loop):
            _check(section, entry.entries, blocks, depth + 1)
        elif isinstance(entry, (Alloc, Keep)) and entry.block >= blocks:
            raise RecipeError(f"the section {section!r} names a block that is missing: {entry.block}")


def schema() -> str:
    """The JSON Schema of a recipe file, as `docs/schema/recipes.schema.json` has it."""
    text: dict[str, object] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:oomph:recipes:{SCHEMA_VERSION}",
        "title": f"oomph recipes, version {SCHEMA_VERSION}",
        **msgspec.json.schema(Recipes),
    }
    return msgspec.json.format(msgspec.json.encode(text), indent=2).decode() + "\n"
