"""Reads the recipes that come with oomph."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from oomph.errors import UsageError
from oomph.memory.recipe.model import Recipes, decode

#: Families that people ask for and that no recipe describes, each with why.
LEFT_OUT = {
    "gemma2": (
        "its layers alternate between sliding and full attention with masks of their own, and a recipe repeats one "
        "kind of layer"
    ),
    "gemma3": (
        "every sixth layer has other rotary embeddings and full attention, and a recipe repeats one kind of layer"
    ),
}


def families() -> tuple[str, ...]:
    """The families of models that there are recipes of, by name."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name[:-5] for file in files if file.name.endswith(".json")))


@lru_cache(maxsize=16)
def load(family: str) -> Recipes:
    """The recipes of a family. Raises UsageError, naming the families, when there are none of it, and
    why where that is known (`LEFT_OUT`)."""
    if family in LEFT_OUT:
        raise UsageError(f"There are no recipes of {family}: {LEFT_OUT[family]}.")
    if family not in families():
        raise UsageError(f"There are no recipes of {family!r}; there are some of {', '.join(families())}.")
    return decode((resources.files(__package__) / f"{family}.json").read_bytes())
