"""Makes the recipes of a family: traces, puts together, proves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.model import Recipes, SpeaksFor
from oomph.tracing.recipes.assemble import assemble
from oomph.tracing.recipes.collect import Collection, prove
from oomph.tracing.recipes.families import MEANINGS, Family
from oomph.tracing.recipes.observe import observe
from oomph.tracing.recipes.step import Choice
from oomph.tracing.settings import Version

_FIELDS = (
    "b",
    "s",
    "hidden",
    "intermediate",
    "kv_heads",
    "group",
    "head_dim",
    "vocab",
    "positions",
    "rank",
    "layers",
)
#: Unrelated numbers, so that no product is another by chance; widths are multiples of 8, as kernels want them, and of
#: the heads, as configs want them. The first two differ by one layer.
_RUNS = (
    (3, 1096, 720, 1192, 2, 5, 56, 1009, 3001, 11, 3),
    (3, 1096, 720, 1192, 2, 5, 56, 1009, 3001, 11, 4),
    (5, 1384, 672, 1304, 3, 4, 40, 1511, 3011, 13, 3),
    (2, 1688, 880, 1384, 5, 2, 72, 2003, 3019, 6, 5),
    (7, 776, 896, 1448, 4, 7, 88, 1777, 3023, 17, 3),
    (4, 1048, 1008, 1528, 7, 2, 104, 2221, 3037, 19, 6),
)
METHODS = ("full", "lora")
PRECISIONS = ("fp32", "bf16", "bf16-autocast")


def runs(family: Family, heads: str) -> Iterator[dict[str, int]]:
    """The dimensions of each run that a recipe is found from."""
    for numbers in _RUNS:
        run = dict(zip(_FIELDS, numbers, strict=True))
        group = run.pop("group")
        run["heads"] = run["kv_heads"] * group
        if heads == "equal":
            run["kv_heads"] = run["heads"]
        elif heads == "single":
            run["kv_heads"] = 1
        if "hidden" not in family.names:
            run["hidden"] = run["heads"] * run["head_dim"]
        yield run


def choices(family: Family) -> Iterator[Choice]:
    """Every way to train that the family's recipes are made for."""
    for tied, heads, method, precision, checkpointing in product(
        family.tied, family.heads, METHODS, PRECISIONS, (False, True)
    ):
        yield Choice(method, precision, checkpointing, family.attention, heads=heads, tied=tied)


def generate(
    family: Family,
    gpu: Gpu,
    torch: Version,
    wanted: Iterable[Choice],
    told: Callable[[Choice], Any] = lambda _: None,
) -> Recipes:
    """The recipes of a family for these choices, each proved on every run that it was made from.

    Raises RecipeError where one cannot be found, naming the choice."""
    collection = Collection(family.name, _speaks_for(family, gpu, torch))
    proofs = []
    for choice in wanted:
        streams = [observe(family, run, choice, gpu, torch) for run in runs(family, choice.heads)]
        try:
            collection.add(assemble(streams, family.names), vars(choice))
        except RecipeError as error:
            raise RecipeError(f"{family.name}, {choice}: {error}") from error
        proofs.append(streams)
        told(choice)
    recipes = collection.recipes(_meanings(family), family.fixed, {})
    for variant, streams in zip(recipes.variants, proofs, strict=True):
        for stream in streams:
            prove(recipes, variant, stream)
    return recipes


def _meanings(family: Family) -> dict[str, str]:
    gpu = ("sms", "sm_threads", "blas_workspace")
    return {name: meaning for name, meaning in MEANINGS.items() if name in (*family.names, *gpu)}


def _speaks_for(family: Family, gpu: Gpu, torch: Version) -> SpeaksFor:
    import peft
    import transformers

    return SpeaksFor(
        torch=f"{torch[0]}.{torch[1]}",
        transformers=str(transformers.__version__),
        peft=str(peft.__version__),
        gpu=gpu.name,
        class_name=family.class_name,
    )
