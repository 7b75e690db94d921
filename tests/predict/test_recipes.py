"""The recipes that come with oomph, without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oomph.errors import UsageError
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.recipe.instantiate import instantiate
from oomph.memory.recipe.timeline import play
from oomph.predict.recipes.load import families, load

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


@pytest.mark.parametrize("family", families())
def test_every_recipe_is_whole(family):
    recipes = load(family)
    for variant in recipes.variants:
        dimensions = SIZES | {"kv_heads": KV_HEADS[variant.heads]}
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
