"""A recipe from streams of a toy, against the toy at sizes and depths that it was not made from."""

from __future__ import annotations

import pytest

from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.model import Loop, SpeaksFor, decode
from oomph.tracing.recipes.assemble import assemble
from oomph.tracing.recipes.collect import Collection, prove, spelled_out
from oomph.tracing.recipes.single import filled
from oomph.tracing.recipes.stream import Seen, Stream
from tests.tracing.recipes import toy

NAMES = ("b", "s", "hidden", "layers")
SPEAKS = SpeaksFor("2.13", "5.0", "", "Toy")
CHOICE = {
    "method": "full",
    "precision": "fp32",
    "checkpointing": False,
    "attention": "sdpa",
    "optimizer": "adamw",
    "heads": "equal",
    "tied": False,
}


def streams() -> list[Stream]:
    return [
        toy.run(3, 1096, 720, 3, 3),
        toy.run(3, 1096, 720, 4, 3),
        toy.run(5, 184, 672, 3, 2, 84),
        toy.run(2, 88, 880, 5, 2, 74),
        toy.run(7, 776, 896, 3, 2, 98),
    ]


def collected(given: list[Stream]):
    collection = Collection("toy", SPEAKS)
    variant = collection.add(assemble(given, NAMES), CHOICE, [80])
    return collection, collection.recipes(dict.fromkeys(NAMES, ""), {}, {}), variant


@pytest.mark.parametrize(
    ("b", "s", "hidden", "layers"), [(1, 4096, 4096, 32), (8, 33, 64, 2), (16, 2, 8, 80), (2, 500, 8, 3)]
)
def test_other_sizes_and_depths_event_by_event(b, s, hidden, layers):
    _, recipes, variant = collected(streams())
    prove(recipes, variant, toy.run(b, s, hidden, layers, 4))


def test_what_the_recipe_says():
    _, recipes, variant = collected(streams())
    sizes = {(block.label, block.category): block.size for block in recipes.blocks}
    assert sizes == {
        ("weight", "parameters"): "12*hidden*hidden",
        ("norm", "parameters"): "4*hidden",
        ("embedding", "activations"): "2*b*hidden*s",
        ("mm", "activations"): "2*b*hidden*s",
        ("mm", "workspace"): "blas_workspace",
        ("mask", "temporaries"): "up(s, 32)",
        ("labels", "activations"): "8*b*s - 8*b",
        ("sum", "unknown"): "above(b*s, 1000, 8*b*s)",
        ("weight_gradient", "gradients"): "12*hidden*hidden",
        ("zeros", "optimizer state"): "12*hidden*hidden",
    }
    loops = [entry for entry in recipes.sections["forward-1"] if isinstance(entry, Loop)]
    assert [loop.count for loop in loops] == ["layers"]
    assert [part.section for part in variant.first] == ["forward-1", "backward-1", "optimizer-1", "clear-1"]
    assert [part.section for part in variant.next] == ["forward-1", "backward-1", "optimizer-2", "clear-1"]


def test_a_difference_is_named():
    _, recipes, variant = collected(streams())
    other = toy.run(3, 100, 64, 3, 2)
    other.seen[5] = Seen(4 * 64 + 4, "norm", (65,), 4, True)
    with pytest.raises(
        RecipeError, match=r"differs from the run at event 5: \(5, 256\) instead of \(5, 260\)"
    ):
        prove(recipes, variant, other)


def test_runs_that_follow_no_recipe_are_refused():
    odd = streams()
    odd[2].seen[0] = Seen(999983, "weight", (999983,), 1, True)
    with pytest.raises(RecipeError, match="bytes in one run"):
        assemble(odd, NAMES)
    odd = streams()
    del odd[3].events[-2:]
    with pytest.raises(RecipeError, match="differs at event"):
        assemble(odd, NAMES)


def test_the_same_for_other_gpus_is_one_recipe_and_sections_are_shared():
    collection, recipes, variant = collected(streams())
    again = collection.add(assemble(streams(), NAMES), CHOICE, [90])
    assert again.capabilities == (80, 90)
    collection.add(assemble(streams(), NAMES), {**CHOICE, "method": "lora"}, [80])
    whole = collection.recipes({}, {}, {})
    assert len(whole.variants) == 2
    assert whole.sections == recipes.sections
    other = Collection("toy", SPEAKS)
    other.take_over(whole, whole.variants[1])
    alone = other.recipes({}, {}, {})
    assert spelled_out(alone, alone.variants[0]) == spelled_out(recipes, variant)


def test_a_batch_of_one_that_makes_no_copy():
    def with_copy(stream: Stream) -> Stream:
        """Before everything: a padded tensor, and a copy of it unless the batch is one; then the first is freed."""
        b, s = stream.dimensions["b"], stream.dimensions["s"]
        result = Stream(stream.dimensions)
        padded = result.alloc(Seen(8 * b * (s + 1), "pad", (b, s + 1), 8, True, label="pad"))
        copy = padded
        if b > 1:
            copy = result.alloc(Seen(8 * b * s, "clone", (b, s), 8, True, label="clone"))
            result.free(padded)
        result.cut("before", "load")
        result.free(copy)
        result.cut("after", "load")
        offset = len(result.seen)
        base = len(result.events)
        result.seen += stream.seen
        result.events += [event + offset if event >= 0 else event - offset for event in stream.events]
        for cut in stream.cuts:
            result.cuts.append(
                cut.__class__(cut.section, cut.phase, cut.round, cut.begin + base, cut.end + base)
            )
        return result

    several = [with_copy(stream) for stream in streams()]
    one = filled(with_copy(toy.run(1, 2000, 640, 3, 2)), several[0])
    _, recipes, variant = collected([*several, one])
    sizes = {block.label: block.size for block in recipes.blocks}
    assert sizes["pad"] == "above(b, 1, 8*b*s + 8*b)"
    assert sizes["clone"] == "8*b*s - above(b, 1, 8) + 8"
    prove(recipes, variant, with_copy(toy.run(1, 3000, 128, 6, 3)))
    prove(recipes, variant, with_copy(toy.run(4, 300, 128, 6, 3)))


def test_a_file_of_it_is_read_back():
    import msgspec

    _, recipes, _ = collected(streams())
    assert decode(msgspec.json.encode(recipes)) == recipes
