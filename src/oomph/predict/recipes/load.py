"""Reads the recipes that come with oomph."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from oomph.errors import UsageError
from oomph.memory.recipe.model import Recipes, decode


def families() -> tuple[str, ...]:
    """The families of models that there are recipes of, by name."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name[:-5] for file in files if file.name.endswith(".json")))


@lru_cache(maxsize=16)
def load(family: str) -> Recipes:
    """The recipes of a family. Raises UsageError, naming the families, when there are none of it."""
    if family not in families():
        raise UsageError(f"There are no recipes of {family!r}; there are some of {', '.join(families())}.")
    return decode((resources.files(__package__) / f"{family}.json").read_bytes())
