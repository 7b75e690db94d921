"""Traces the real classes at the sizes of real models and compares each run with the recipe, event by event.

python -m tests.tracing.recipes.real FAMILY...      prints a line of JSON per run
"""

from __future__ import annotations

import json
import sys
import warnings

from oomph.hardware.names import gpu
from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.model import Variant, describe
from oomph.predict.recipes.load import load
from oomph.tracing.recipes.collect import choices_of, prove
from oomph.tracing.recipes.families import FAMILIES
from oomph.tracing.recipes.observe import observe
from oomph.tracing.recipes.step import Choice

_NAMES = ("b", "s", "layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "rank")
#: Widths, heads and vocabularies as the models' published configs have them; all layers where the time allows.
MODELS = {
    "llama": {
        "Llama-3.1-8B": (2, 2048, 32, 4096, 14336, 32, 8, 128, 128256, 16),
        "Llama-3.2-1B, odd": (1, 777, 16, 2048, 8192, 32, 8, 64, 128256, 8),
        "Llama-3.1-70B": (8, 4096, 3, 8192, 28672, 64, 8, 128, 128256, 64),
    },
    "mistral": {"Mistral-7B-v0.3": (4, 4096, 4, 4096, 14336, 32, 8, 128, 32768, 16)},
    "qwen2": {"Qwen2.5-7B": (2, 2048, 4, 3584, 18944, 28, 4, 128, 152064, 16)},
    "qwen3": {"Qwen3-8B": (1, 2048, 4, 4096, 12288, 32, 8, 128, 151936, 16)},
    "gemma": {"gemma-2b": (2, 2048, 4, 2048, 16384, 8, 1, 256, 256000, 16)},
    "phi": {"phi-2": (2, 2048, 4, 2560, 10240, 32, 32, 80, 51200, 16)},
    "phi3": {"Phi-3-mini": (3, 1000, 4, 3072, 8192, 32, 32, 96, 32064, 16)},
    "gpt2": {
        "gpt2": (8, 1024, 12, 768, 3072, 12, 12, 64, 50257, 8),
        "gpt2-xl, beyond 32 bits": (250, 1024, 3, 1600, 6400, 25, 25, 64, 50257, 8),
        "gpt2-xl, one": (1, 1023, 3, 1600, 6400, 25, 25, 64, 50257, 8),
    },
}


#: Method, checkpointing, and the precision to take where it is there.
_WAYS = (
    ("full", True, "bf16-autocast"),
    ("lora", False, "bf16-autocast"),
    ("full", False, "fp32"),
    ("lora", True, "bf16"),
)
#: The families of which every way is traced; of others the first two, for the time it takes.
_IN_FULL = ("llama", "gpt2")


def chosen(family: str, variants: tuple[Variant, ...]) -> list[Variant]:
    """Recipes to compare, of the family's most usual heads and weights."""
    result = []
    for method, checkpointing, precision in _WAYS if family in _IN_FULL else _WAYS[:2]:
        alike = [each for each in variants if (each.method, each.checkpointing) == (method, checkpointing)]
        alike.sort(key=lambda each: each.precision != precision)
        result += alike[:1]
    return result


def compare(name: str) -> None:
    """One family, every model of it."""
    recipes = load(name)
    family = FAMILIES[name]
    for variant in chosen(name, recipes.variants):
        choice = Choice(**choices_of(variant))  # type: ignore[arg-type]
        for model, numbers in MODELS[name].items():
            dimensions = dict(zip(_NAMES, numbers, strict=True)) | {"positions": 1024}
            answer = {
                "family": name,
                "model": model,
                "recipe": describe(variant),
                "events": 0,
                "difference": None,
            }
            stream = observe(family, dimensions, choice, gpu("a100-40gb"), (2, 13), 2)
            answer["events"] = len(stream.events)
            try:
                prove(recipes, variant, stream)
            except RecipeError as error:
                answer["difference"] = str(error)
            sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[1:] or MODELS:
        compare(each)
