"""Writes the recipes: src/oomph/predict/recipes/FAMILY.json, found by tracing the real classes.

    python tools/make_recipes.py                        all families, every way to train, for an A100 (about an hour)
    python tools/make_recipes.py llama gpt2             these families
    python tools/make_recipes.py --only lora,bf16       ways to train whose description has all of these words
    python tools/make_recipes.py --gpu h100-sxm         for another GPU; recipes that are there stay
    python tools/make_recipes.py --check llama          make them anew and compare; exit 1 and name what differs
    python tools/make_recipes.py --table                write the table of docs/recipes.md from the files, no more

Recipes that a file already has are kept unless they are made anew, or speak for other versions than those installed.
A file is written after each recipe, so a run that was stopped can be taken up: --missing makes only those not there.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec

from oomph.hardware.names import gpu as gpu_named
from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.model import Recipes, Variant, decode, describe
from oomph.predict.recipes.load import families, load
from oomph.predict.recipes.table import table
from oomph.tracing.recipes.collect import Collection, choices_of, spelled_out
from oomph.tracing.recipes.families import FAMILIES, Family
from oomph.tracing.recipes.generate import choices, generate, speaks_for, whole
from oomph.tracing.recipes.step import Choice

FOLDER = Path(__file__).resolve().parent.parent / "src" / "oomph" / "predict" / "recipes"
DOCS = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
BEGIN, END = "<!-- table of the files -->\n", "<!-- end of the table -->\n"
TORCH = (2, 13)


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description="Writes recipes, or checks those that are there.")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="default: all")
    parser.add_argument("--gpu", default="a100-80gb")
    parser.add_argument("--only", default="", help="words that a way to train must have, with commas")
    parser.add_argument("--main", action="store_true", help="only the first heads and tying of each family")
    parser.add_argument("--missing", action="store_true", help="make only recipes that are not there")
    parser.add_argument("--check", action="store_true", help="write nothing; say which recipes differ")
    parser.add_argument("--table", action="store_true", help="write the table of docs/recipes.md")
    options = parser.parse_args()
    if options.table:
        DOCS.write_text(with_table(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    warnings.simplefilter("ignore")
    code = 0
    for name in options.families or FAMILIES:
        code = max(code, one_family(FAMILIES[name], options))
    return code


def one_family(family: Family, options: argparse.Namespace) -> int:
    """Makes or checks the recipes of a family; 1 where one differs or cannot be made."""
    path = FOLDER / f"{family.name}.json"
    there = decode(path.read_bytes()) if path.exists() else None
    gpu = gpu_named(options.gpu)
    speaks = speaks_for(family, TORCH)
    if there is not None and there.speaks_for != speaks:
        print(f"{family.name}: the file speaks for {there.speaks_for}", file=sys.stderr)
        if options.check:
            return 1
        there = None
    capability = gpu.capability[0] * 10 + gpu.capability[1]
    code = 0
    for choice in wanted(family, options.only, options.main):
        known = find(there, choice, capability)
        if known and options.missing:
            continue
        made = Collection(family.name, speaks)
        try:
            variants = generate(family, choice, gpu, TORCH, made)
        except RecipeError as error:
            print(f"FAILED: {error}", file=sys.stderr)
            code = 1
            continue
        new = whole(family, made)
        before = [] if there is None else [spelled_out(there, each) for each in known]
        differs = before != [spelled_out(new, each) for each in variants]
        for variant in variants:
            print(f"{family.name}: {describe(variant)}: {'differs' if differs else 'the same'}", flush=True)
        if options.check:
            code = max(code, int(differs))
        elif differs:
            there = joined(family, there, new, capability)
            path.write_bytes(as_file(there))
    if there is not None and not options.check:
        # What the family says of its dimensions may have changed although no recipe has.
        path.write_bytes(as_file(joined(family, there, whole(family, Collection(family.name, speaks)), 0)))
    return code


def wanted(family: Family, only: str, main: bool) -> Iterator[Choice]:
    """The ways to train that have all these words."""
    words = [word for word in only.split(",") if word]
    for choice in choices(family):
        if main and (choice.heads, choice.tied) != (family.heads[0], family.tied[0]):
            continue
        about = [*(str(value) for value in vars(choice).values())]
        about += ["checkpointing" if choice.checkpointing else "plain", "tied" if choice.tied else "untied"]
        if all(word in about for word in words):
            yield choice


def find(there: Recipes | None, choice: Choice, capability: int) -> list[Variant]:
    """The recipe for a choice, if it is there."""
    variants = () if there is None else there.variants
    return [each for each in variants if choices_of(each) == vars(choice) and capability in each.capabilities]


def joined(family: Family, there: Recipes | None, new: Recipes, capability: int) -> Recipes:
    """What was there, with the new recipes instead of those for the same choices."""
    collection = Collection(family.name, new.speaks_for)
    replaced = [choices_of(variant) for variant in new.variants]
    for variant in () if there is None else there.variants:
        if choices_of(variant) not in replaced or capability not in variant.capabilities:
            assert there is not None
            collection.take_over(there, variant)
    for variant in new.variants:
        collection.take_over(new, variant)
    return whole(family, collection)


def as_file(recipes: Recipes) -> bytes:
    """JSON with a line for each recipe, block and section: two versions can be compared line by line."""
    fields = []
    for name, value in msgspec.to_builtins(recipes).items():
        if name in ("variants", "blocks"):
            lines = [line(each) for each in value]
            text = "[\n" + ",\n".join(lines) + "\n]"
        elif name == "sections":
            lines = [f"{line(key)}: {line(each)}" for key, each in value.items()]
            text = "{\n" + ",\n".join(lines) + "\n}"
        else:
            text = line(value)
        fields.append(f"{line(name)}: {text}")
    return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


def with_table(text: str) -> str:
    """The page with the table of the recipes that are there."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + "\n" + table([load(name) for name in families()]) + "\n" + END + after


def line(value: object) -> str:
    """Compact JSON."""
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    sys.exit(main())
