"""The recipes that come with oomph, without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oomph.errors import UsageError
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.recipe.instantiate import doubt_bytes, instantiate
from oomph.memory.recipe.timeline import play
from oomph.predict.recipes.load import LEFT_OUT, families, load
from oomph.predict.recipes.table import table

A100 = {"sms": 108, "sm_threads": 2048, "capability": 80, "blas_workspace": 8_519_680}
#: Dimensions as of a model of some billion parameters; every name that a family may ask for.
SIZES = {
    "b": 2,
    "s": 2048,
    "layers": 24,
    "hidden": 2048,
    "intermediate": 8192,
    "heads": 16,
    "head_dim": 128,
    "vocab": 32_000,
    "positions": 2048,
    "rank": 16,
    **A100,
}
KV_HEADS = {"equal": 16, "grouped": 4, "single": 1}


def test_the_families_are_there():
    wanted = {"llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "gpt2"}
    assert wanted <= set(families())
    with pytest.raises(UsageError, match="llama"):
        load("no such family")


@pytest.mark.parametrize("family", sorted(LEFT_OUT))
def test_what_is_left_out_says_why(family):
    assert family not in families()
    with pytest.raises(UsageError, match=f"no recipes of {family}: .*layer"):
        load(family)


@pytest.mark.parametrize(
    ("family", "changes", "says"),
    [
        ("llama", {"kv_heads": 16}, "for grouped heads; heads = 16 with kv_heads = 16 are equal"),
        ("llama", {"kv_heads": 1}, "are single"),
        ("llama", {"kv_heads": 3}, "multiple of kv_heads"),
        ("gpt2", {"kv_heads": 0}, "multiple of kv_heads"),
        ("llama", {"s": 1}, "s .tokens in a sequence. must be from 2"),
        ("llama", {"b": 0}, "b .sequences in a batch. must be at least 1"),
        ("llama", {"head_dim": 100}, "in steps of 8"),
        ("llama", {"head_dim": 320}, "from 8 to 256"),
        ("llama", {"head_dim": 208, "capability": 89}, "heads of 200 to 224"),
        ("llama", {"capability": 75}, "compute capability .*, not 75"),
        ("qwen2", {"hidden": 2056}, "heads [*] head_dim"),
        ("gpt2", {"kv_heads": 16, "s": 2049}, "longer than the positions"),
    ],
)
def test_dimensions_that_a_recipe_is_not_for(family, changes, says):
    recipes = load(family)
    variant = recipes.variant(80, method="full", precision="bf16-autocast", checkpointing=True)
    with pytest.raises(UsageError, match=says):
        instantiate(recipes, variant, SIZES | {"kv_heads": 4} | changes)


def test_a_batch_of_one_in_float32_is_a_recipe_of_its_own():
    # With fewer key heads, attention of plain operators: `several` does not hold for one sequence.
    recipes = load("llama")
    several, alone = (
        recipes.variant(80, method="full", precision="fp32", checkpointing=False, batch=batch)
        for batch in (2, 1)
    )
    where = SIZES | {"kv_heads": 4}
    assert len(instantiate(recipes, alone, where | {"b": 1})) < len(instantiate(recipes, several, where))
    with pytest.raises(UsageError, match="must be from 2"):
        instantiate(recipes, several, where | {"b": 1})
    with pytest.raises(UsageError, match="must be 1 here, not 2"):
        instantiate(recipes, alone, where)


def test_only_what_cudnn_decides_is_in_doubt():
    # Of attention's gradients in float32: b*s*head_dim = 2*2048*128 numbers of each of 16 + 2*4 heads, 4 bytes each.
    recipes = load("llama")
    where = SIZES | {"kv_heads": 4, "capability": 90}
    for precision, expected in (("fp32", 0), ("bf16", 2 * 2048 * 128 * 24 * 4)):
        variant = recipes.variant(90, batch=2, method="full", precision=precision, checkpointing=False)
        assert doubt_bytes(recipes, variant, where) == expected
    assert all(each.doubt == "0" for each in recipes.variants if 80 in each.capabilities)


def test_the_table_of_the_page_is_that_of_the_files(request):
    page = (request.config.rootpath / "docs" / "recipes.md").read_text(encoding="utf-8")
    there = [load(family) for family in families()]
    assert table(there) in page
    rows = [line.split(" | ") for line in page.splitlines() if "ForCausalLM |" in line]
    assert {row[0].removeprefix("| ") for row in rows} >= {
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma",
        "phi",
    }


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "gpt2"])
def test_the_usual_ways_to_train_are_there(family):
    recipes = load(family)
    for method in ("full", "lora"):
        for precision in ("fp32", "bf16", "bf16-autocast"):
            for checkpointing in (False, True):
                recipes.variant(80, method=method, precision=precision, checkpointing=checkpointing)


@pytest.mark.parametrize("family", families())
def test_every_recipe_is_whole(family):
    recipes = load(family)
    for variant in recipes.variants:
        dimensions = SIZES | {"kv_heads": KV_HEADS[variant.heads], "capability": variant.capabilities[0]}
        dimensions |= {"layers": 3, "b": min(2, variant.limits.get("b", (1, 2, 1))[1])}
        events = instantiate(recipes, variant, dimensions, 3)
        live: dict[int, int] = {}
        for number, size in zip(events.number, events.size, strict=True):
            assert size > 0
            if number >= 0:
                live[number] = size
            else:
                assert live.pop(~number) == size
        second, third = (
            [size for size, step in zip(events.size, events.step, strict=True) if step == which]
            for which in (1, 2)
        )
        assert second == third
        played = play(events, CachingAllocator(AllocatorSettings(torch=(2, 13))))
        assert played.failed_at is None


def test_what_stays_is_weights_gradients_none_and_two_momenta():
    # Llama-3.2-1B's shape, fp32, untied: after a step weights and two momenta of each remain, the momenta's numbers of
    # steps on the CPU, and the workspaces of two threads. The buffer of rotary frequencies (twice head_dim / 2 floats).
    recipes = load("llama")
    variant = recipes.variant(
        method="full", precision="bf16-autocast", checkpointing=True, tied=False, heads="grouped"
    )
    where = SIZES | {"kv_heads": 4}
    events = instantiate(recipes, variant, where, 2)
    hidden, intermediate, head_dim, layers = 2048, 8192, 128, 24
    layer = hidden * head_dim * (2 * 16 + 2 * 4) + 3 * hidden * intermediate + 2 * hidden
    weights = 4 * (layers * layer + hidden + 2 * 32_000 * hidden)
    left = sum(
        size if number >= 0 else -size for number, size in zip(events.number, events.size, strict=True)
    )
    assert left == 3 * weights + 2 * 8_519_680 + 2 * 4 * head_dim // 2


def test_no_torch_and_no_numpy_is_needed():
    code = (
        "import sys; from oomph.predict.recipes.load import load; "
        "from oomph.memory.recipe.instantiate import instantiate; load('llama'); "
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
