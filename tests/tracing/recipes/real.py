"""Traces the real classes and compares each run with the recipe, event by event.

python -m tests.tracing.recipes.real FAMILY...           at the sizes of real models; prints a line of JSON per run
python -m tests.tracing.recipes.real --small FAMILY...   every recipe that there is, each on one GPU per generation
"""

from __future__ import annotations

import json
import sys
import warnings

from oomph.errors import OomphError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu
from oomph.memory.recipe.model import Recipes, Variant, describe
from oomph.predict.recipes.load import families, load
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


#: Method, checkpointing, and the precision, of the recipes that are compared at these sizes.
_WAYS = (
    ("full", True, "bf16-autocast"),
    ("lora", False, "bf16-autocast"),
    ("full", False, "fp32"),
    ("lora", True, "bf16"),
)
#: The families of which all these are traced; of others the first, for the time it takes.
_IN_FULL = ("llama", "gpt2")
#: A layer or two of no model: with heads of a usual width, an odd length and more tokens than an embedding's gradient
#: sums without sorting (3,072), so that its scratch memory is there.
_SMALL = (4, 771, 2, 384, 1000, 6, 2, 64, 1003, 5)
#: A GPU of each generation that recipes are for.
_GPUS = ("a100-40gb", "l40s", "h100-sxm")


def chosen(family: str, variants: tuple[Variant, ...], of: int) -> list[Variant]:
    """Recipes to compare at real sizes, of the family's most usual heads and weights."""
    result = []
    for way in _WAYS if family in _IN_FULL else _WAYS[:1]:
        alike = [each for each in variants if (each.method, each.checkpointing, each.precision) == way]
        result += [each for each in alike if of in each.capabilities][:1]
    return result


def compare(name: str) -> None:
    """One family: the first recipe for every model of it, each other one for one model."""
    recipes = load(name)
    for card in map(gpu, ("a100-40gb", "h100-sxm")):
        ways = chosen(name, recipes.variants, capability(card))
        for number, variant in enumerate(ways):
            models = [*MODELS[name]]
            if number or card.capability != (8, 0):
                models = [models[number % len(models)]]
            for model in models:
                dimensions = dict(zip(_NAMES, MODELS[name][model], strict=True)) | {"positions": 1024}
                if within(dimensions, variant):
                    one(recipes, variant, model, dimensions, card)


def compare_small(name: str) -> None:
    """Every recipe of a family."""
    recipes = load(name)
    for number, variant in enumerate(recipes.variants):
        dimensions = dict(zip(_NAMES, _SMALL, strict=True)) | {"positions": 1024}
        dimensions["layers"] = 1 + number // 2 % 2
        dimensions["kv_heads"] = {"equal": 6, "grouped": 2, "single": 1}[variant.heads]
        if number % 3 == 2 or not within(dimensions, variant):
            dimensions["b"] = variant.limits.get("b", (1, 1, 1))[0]
        fitting = [each for each in map(gpu, _GPUS) if capability(each) in variant.capabilities]
        one(recipes, variant, "small", dimensions, fitting[number % len(fitting)])


def one(recipes: Recipes, variant: Variant, model: str, dimensions: dict[str, int], card: Gpu) -> None:
    """One run; prints how it compares."""
    answer: dict[str, object] = {
        "family": recipes.family,
        "model": model,
        "recipe": describe(variant),
        "gpu": card.name,
    }
    choice = Choice(**choices_of(variant))  # type: ignore[arg-type]
    stream = observe(FAMILIES[recipes.family], dimensions, choice, card, (2, 13), 2)
    answer |= {"events": len(stream.events), "difference": None}
    try:
        prove(recipes, variant, stream)
    except OomphError as error:
        answer["difference"] = str(error)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def within(dimensions: dict[str, int], variant: Variant) -> bool:
    """Whether these are in the recipe's own limits."""
    return all(least <= dimensions[name] <= most for name, (least, most, _) in variant.limits.items())


def capability(card: Gpu) -> int:
    """As recipes have it."""
    return card.capability[0] * 10 + card.capability[1]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    small = "--small" in sys.argv
    named = [each for each in sys.argv[1:] if each != "--small"]
    for each in named or families():
        (compare_small if small else compare)(each)
