"""Makes the recipes of a family: traces, puts together, proves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from oomph.hardware.gpus import Gpu
from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.grammar import parse
from oomph.memory.recipe.model import Recipes, SpeaksFor, Variant
from oomph.tracing.recipes.assemble import assemble
from oomph.tracing.recipes.collect import Collection, prove
from oomph.tracing.recipes.families import GPU_NAMES, MEANINGS, Family
from oomph.tracing.recipes.observe import observe
from oomph.tracing.recipes.single import filled
from oomph.tracing.recipes.step import Choice
from oomph.tracing.recipes.stream import Stream
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
)
#: The first two runs show that the third step is as the second.
_STEPS = (3, 3, 2, 2, 2, 2)
#: A batch of one, with as many layers as the first.
_SINGLE = (1, 1201, 960, 1336, 3, 4, 48, 1609, 3041, 7, 3)
Limits = dict[str, tuple[int, int, int]]
#: Where a recipe cannot hold for a batch of one and larger ones: the sequences of each run of the latter, and limits.
_SEVERAL = (None, None, None, None, None, 4)
_AT_LEAST_TWO: Limits = {"b": (2, 1 << 24, 1)}
_ALONE: Limits = {"b": (1, 1, 1)}
#: What a trace may not know: nothing, or cuDNN's workspace in backward of attention, bounded by three gradients in
#: float32, of which those of key and value have as many heads as these or, copied, as the query.
_DOUBTS = ("0", "4*b*head_dim*heads*s + 8*b*head_dim*kv_heads*s", "12*b*head_dim*heads*s")
METHODS = ("full", "lora")
PRECISIONS = ("fp32", "bf16", "bf16-autocast")


def runs(family: Family, heads: str) -> Iterator[dict[str, int]]:
    """The dimensions of each run that a recipe is found from, the batch of one last."""
    for numbers in (*_RUNS, _SINGLE):
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


def gpus(gpu: Gpu) -> Iterator[Gpu]:
    """The GPU of each run: of one generation, with other numbers of processors, so that sizes are told to be made of
    them."""
    others = ((8, 6), (8, 9), (8, 0), (8, 0)) if gpu.capability[0] == 8 else (gpu.capability,) * 4
    yield gpu
    yield gpu
    for capability, processors, threads in zip(others, (24, 34, 10, 2), (-512, -512, -1024, 0), strict=True):
        yield replace(
            gpu,
            capability=capability,
            multiprocessors=gpu.multiprocessors - processors,
            threads_per_multiprocessor=gpu.threads_per_multiprocessor + threads,
        )


def choices(family: Family) -> Iterator[Choice]:
    """Every way to train that the family's recipes are made for."""
    for tied, heads, method, precision, checkpointing in product(
        family.tied, family.heads, METHODS, PRECISIONS, (False, True)
    ):
        yield Choice(method, precision, checkpointing, family.attention, heads=heads, tied=tied)


def generate(
    family: Family, choice: Choice, gpu: Gpu, torch: Version, collection: Collection
) -> tuple[Variant, ...]:
    """Makes the recipe of one way to train, proves it on every run that it was made from, and adds it to a collection.
    Where a batch of one does other things than to leave copies out, it makes two: for a batch of one, and for larger.

    Raises RecipeError, naming the choice, where none can be found.
    """

    def observed(batches: Sequence[int | None]) -> list[Stream]:
        sizes = zip(batches, runs(family, choice.heads), gpus(gpu), _STEPS, strict=True)
        return [
            observe(family, run if batch is None else run | {"b": batch}, choice, each, torch, steps)
            for batch, run, each, steps in sizes
        ]

    def made(streams: list[Stream], limits: Limits, last: Stream) -> Variant:
        names = [name for name in family.names if name not in limits or limits[name][0] < limits[name][1]]
        draft = assemble([*streams[:-1], last], (*names, "sms", "sm_threads", "capability"))
        capabilities = sorted({int(stream.dimensions["capability"]) for stream in streams})
        said = {**vars(choice), "limits": limits, "doubt": _doubt(streams)}
        variant = collection.add(draft, said, capabilities)
        recipes = whole(family, collection)
        for stream in streams:
            prove(recipes, variant, stream)
        return variant

    streams = observed([None] * len(_STEPS))
    try:
        last = filled(streams[-1], streams[0])
    except RecipeError:
        last = None
    try:
        if last is not None:
            return (made(streams, {}, last),)
        several, alone = observed(_SEVERAL), observed([1] * len(_STEPS))
        return made(several, _AT_LEAST_TWO, several[-1]), made(alone, _ALONE, alone[-1])
    except RecipeError as error:
        raise RecipeError(f"{family.name}, {choice}: {error}") from error


def _doubt(streams: Sequence[Stream]) -> str:
    for text in _DOUBTS:
        if all(parse(text).evaluate(each.dimensions, FUNCTIONS) == each.doubt for each in streams):
            return text
    raise RecipeError(f"no known expression is what kernels may exceed: {[each.doubt for each in streams]}")


def whole(family: Family, collection: Collection) -> Recipes:
    """All recipes of a collection, with what the family says of its dimensions."""
    meanings = {name: meaning for name, meaning in MEANINGS.items() if name in (*family.names, *GPU_NAMES)}
    return collection.recipes(meanings, family.fixed, family.limits, family.refused())


def speaks_for(family: Family, torch: Version) -> SpeaksFor:
    """The versions that are installed here."""
    import peft
    import transformers

    return SpeaksFor(
        torch=f"{torch[0]}.{torch[1]}",
        transformers=str(transformers.__version__),
        peft=str(peft.__version__),
        class_name=family.class_name,
    )
