"""Recipes to events: slots, loops, workspaces, blocks of no bytes, and what a bad recipe says."""

from __future__ import annotations

import msgspec
import pytest

from oomph.errors import UsageError
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.instantiate import instantiate
from oomph.memory.recipe.model import (
    Alloc,
    Block,
    Entry,
    Free,
    Keep,
    Loop,
    Part,
    Recipes,
    SpeaksFor,
    Variant,
    decode,
    schema,
)
from oomph.memory.recipe.timeline import play
from oomph.memory.timeline import Kind

WEIGHT, INPUT, OUTPUT, SPACE, SCRATCH, GRADIENT = range(6)

BLOCKS = (
    Block("4*hidden*hidden", "parameters", "weight"),
    Block("4*b*hidden", "activations", "input"),
    Block("4*b*hidden + 4*b", "activations", "layer"),
    Block("1000", "workspace", "workspace"),
    Block("above(b, 2, 8*b)", "temporaries", "sum"),
    Block("4*hidden*hidden", "gradients", "weight"),
)

SECTIONS: dict[str, tuple[Entry, ...]] = {
    "load": (Loop("layers", (Alloc(WEIGHT, "p"),)),),
    "forward": (
        Alloc(INPUT, "x"),
        Loop("layers", (Keep(SPACE, "w"), Alloc(OUTPUT, "x"), Alloc(SCRATCH, "t"), Free("t"))),
    ),
    "backward": (
        Loop("layers - 1", (Alloc(GRADIENT, "g"), Free("x"))),
        Alloc(GRADIENT, "g"),
        Free("x"),
        Free("x"),
    ),
    "optimizer": (Loop("layers", (Free("g", 0),)),),
}
STEP = (
    Part("forward", "forward"),
    Part("backward", "backward"),
    Part("optimizer", "optimizer"),
)


def recipes(**changes) -> Recipes:
    variant = Variant(
        "full", "fp32", False, "sdpa", "adamw", "equal", False, (80,), (Part("load", "load"),), STEP, STEP
    )
    whole = Recipes(
        schema_version=1,
        family="toy",
        speaks_for=SpeaksFor("2.13", "5.0", "", "Toy"),
        dimensions={"b": "batch", "hidden": "width", "layers": "layers"},
        fixed={},
        limits={"hidden": (1, 64, 1)},
        variants=(variant,),
        blocks=BLOCKS,
        sections=SECTIONS,
    )
    return msgspec.structs.replace(whole, **changes)


def signed(toy: Recipes, steps: int, **dimensions: int) -> list[int]:
    """Sizes in order, frees negative."""
    events = instantiate(toy, toy.variant(), dimensions, steps)
    pairs = zip(events.number, events.size, strict=True)
    return [size if number >= 0 else -size for number, size in pairs]


def test_two_layers_by_hand():
    # b = 1, hidden = 3: weights and gradients 4*3*3 = 36, the input 4*3 = 12, a layer's output 12 + 4 = 16.
    load = [36, 36]
    first = [12, 1000, 16, 16, 36, -16, 36, -16, -12, -36, -36]
    later = [12, 16, 16, 36, -16, 36, -16, -12, -36, -36]
    assert signed(recipes(), 2, b=1, hidden=3, layers=2) == load + first + later


def test_scratch_appears_beyond_its_limit():
    # b = 3: scratch of 8*3 = 24 bytes, taken and given back in each of the three layers.
    sizes = signed(recipes(), 1, b=3, hidden=5, layers=3)
    assert sizes.count(24) == sizes.count(-24) == 3


def test_the_oldest_and_the_newest():
    # Gradients come newest layer first and go in that order: the oldest of the slot first.
    toy = recipes()
    events = instantiate(toy, toy.variant(), {"b": 1, "hidden": 3, "layers": 2}, 1)
    gradients = [n for n, what in zip(events.number, events.what, strict=True) if what == GRADIENT]
    assert gradients == [gradients[0], gradients[1], ~gradients[0], ~gradients[1]]
    assert gradients[0] < gradients[1]


def test_phases_and_steps():
    toy = recipes()
    events = instantiate(toy, toy.variant(), {"b": 1, "hidden": 3, "layers": 2}, 2)
    assert events.phase[:3] == ["load", "load", "forward"]
    assert events.step[0] == 0
    assert events.step[-1] == 1


def test_the_peak_by_hand():
    # Two layers' weights 72, input 12, workspace 1000, two outputs 32, a gradient of 36, one output less, and the other
    # gradient.
    toy = recipes()
    assert instantiate(toy, toy.variant(), {"b": 1, "hidden": 3, "layers": 2}).peak_bytes() == (
        72 + 12 + 1000 + 32 + 36 - 16 + 36
    )


def test_the_timeline_is_the_allocators():
    toy = recipes()
    events = instantiate(toy, toy.variant(), {"b": 1, "hidden": 3, "layers": 2}, 1)
    played = play(events, CachingAllocator(AllocatorSettings(torch=(2, 13))))
    timeline = played.timeline
    assert played.failed_at is None
    assert list(timeline.kind).count(Kind.ALLOC) == sum(number >= 0 for number in events.number)
    assert list(timeline.kind).count(Kind.SEGMENT_ALLOC) == 1
    assert len(played.cause) == len(timeline)


def test_a_card_that_is_too_small():
    toy = recipes()
    events = instantiate(toy, toy.variant(), {"b": 1, "hidden": 3, "layers": 2}, 1)
    played = play(events, CachingAllocator(AllocatorSettings(torch=(2, 13)), capacity_bytes=1 << 20))
    assert played.failed_at == 0
    assert list(played.timeline.kind) == [Kind.OOM]


@pytest.mark.parametrize(
    ("changes", "dimensions", "says"),
    [
        ({}, {"b": 1, "layers": 2}, "'hidden' is not given"),
        ({}, {"b": 0, "hidden": 3, "layers": 2}, "b .batch. must be at least 1"),
        ({}, {"b": 1, "hidden": 65, "layers": 2}, "hidden .width. must be from 1 to 64"),
        (
            {"refused": {"above(hidden, 2, 1)": "three is too wide"}},
            {"b": 1, "hidden": 3, "layers": 2},
            "toy do not hold here: three is too wide",
        ),
        ({"fixed": {"hidden": 4}}, {"b": 1, "hidden": 3, "layers": 2}, "for hidden = 4, not 3"),
        ({"sections": {**SECTIONS, "load": (Free("p"),)}}, {"b": 1, "hidden": 3, "layers": 2}, "not there"),
        (
            {"blocks": (Block("hidden - 9", "parameters", ""), *BLOCKS[1:])},
            {"b": 1, "hidden": 3, "layers": 2},
            "negative",
        ),
        (
            {"sections": {**SECTIONS, "load": (Loop("b*1000000000", (Alloc(0, "p"),)),)}},
            {"b": 10**6, "hidden": 3, "layers": 1},
            "no model's",
        ),
    ],
)
def test_what_cannot_be_says_so(changes, dimensions, says):
    toy = recipes(**changes)
    with pytest.raises((RecipeError, UsageError), match=says):
        instantiate(toy, toy.variant(), dimensions)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "says"),
    [("equal", (4, 2), "are grouped"), ("grouped", (4, 4), "are equal"), ("single", (4, 3), "multiple")],
)
def test_another_relation_of_heads_is_refused(heads, kv_heads, says):
    toy = recipes()
    variant = msgspec.structs.replace(toy.variant(), heads=heads)
    numbers = {"heads": kv_heads[0], "kv_heads": kv_heads[1]}
    with pytest.raises(UsageError, match=says):
        instantiate(toy, variant, {"b": 1, "hidden": 3, "layers": 2, **numbers})


def test_a_recipe_may_have_narrower_limits_than_its_file():
    toy = recipes()
    variant = msgspec.structs.replace(toy.variant(), limits={"b": (2, 9, 1)})
    assert len(instantiate(toy, variant, {"b": 2, "hidden": 3, "layers": 2})) > 0
    with pytest.raises(UsageError, match=r"b .batch. must be from 2 to 9 here, not 1"):
        instantiate(toy, variant, {"b": 1, "hidden": 3, "layers": 2})


def test_the_recipe_for_a_batch_is_the_one_whose_limits_have_it():
    toy = recipes()
    several = msgspec.structs.replace(toy.variant(), limits={"b": (2, 9, 1)})
    alone = msgspec.structs.replace(toy.variant(), limits={"b": (1, 1, 1)})
    toy = recipes(variants=(several, alone))
    assert toy.variant(batch=1) is alone
    assert toy.variant(batch=2) is several
    with pytest.raises(
        RecipeError, match=r"a batch of 10. There are: .*batches of 2 or more; .*a batch of one"
    ):
        toy.variant(batch=10)


def test_a_choice_that_is_not_there_names_those_that_are():
    with pytest.raises(RecipeError, match="full, fp32, no checkpointing, sdpa, adamw"):
        recipes().variant(method="lora")


def test_files_are_read_back_and_checked():
    toy = recipes()
    text = msgspec.json.encode(toy)
    assert decode(text) == toy
    for before, after, says in [
        (b'"schema_version":1', b'"schema_version":9', "version 9"),
        (b'["+",0,"p"]', b'["+",99,"p"]', "block that is missing: 99"),
        (b'"section":"load"', b'"section":"lost"', "'lost' is missing"),
        (b'["+",0,"p"]', b'["?",0,"p"]', "no recipe"),
        (b'{"schema', b'["schema', "no recipe"),
    ]:
        assert before in text
        with pytest.raises(RecipeError, match=says):
            decode(text.replace(before, after, 1))


def test_the_published_schema_is_the_types(request):
    published = request.config.rootpath / "docs" / "schema" / "recipes.schema.json"
    assert published.read_text(encoding="utf-8") == schema()
