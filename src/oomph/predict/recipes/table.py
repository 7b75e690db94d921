"""The table of the recipes that come with oomph, as docs/recipes.md has it."""

from __future__ import annotations

from oomph.memory.recipe.model import Recipes, Variant

_HEAD = (
    "Family",
    "Class",
    "Precision",
    "Method",
    "Checkpointing",
    "Key heads",
    "Tied",
    "Capability",
    "Batch",
)


def table(families: list[Recipes]) -> str:
    """Markdown: the versions that were traced, and a line for all recipes of a family that differ in method and
    checkpointing alone."""
    rows = [_HEAD, ("---",) * len(_HEAD)]
    versions = set()
    for recipes in families:
        about = recipes.speaks_for
        versions.add(f"torch {about.torch}, transformers {about.transformers}, peft {about.peft}")
        groups: dict[tuple[str, ...], list[Variant]] = {}
        for variant in recipes.variants:
            groups.setdefault(_alike(variant), []).append(variant)
        for (precision, *others), variants in sorted(groups.items()):
            ways = (precision, _methods(variants), _checkpointing(variants), *others)
            rows.append((recipes.family, about.class_name, *ways))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "Traced with " + "; ".join(sorted(versions)) + ".\n\n" + "\n".join(lines) + "\n"


def _alike(variant: Variant) -> tuple[str, ...]:
    capabilities = ", ".join(f"{each // 10}.{each % 10}" for each in variant.capabilities)
    least, most, _ = variant.limits.get("b", (1, 0, 1))
    return (
        variant.precision,
        variant.heads,
        "yes" if variant.tied else "no",
        capabilities,
        "any" if "b" not in variant.limits else "one" if most == 1 else f"{least} or more",
    )


def _methods(variants: list[Variant]) -> str:
    return ", ".join(sorted({variant.method for variant in variants}))


def _checkpointing(variants: list[Variant]) -> str:
    there = {(variant.method, variant.checkpointing) for variant in variants}
    if len(there) != 2 * len({method for method, _ in there}):
        return ", ".join(f"{method} {'with' if with_ else 'without'}" for method, with_ in sorted(there))
    return "with and without"
