"""What the dynamic linker is told to look through first."""

from __future__ import annotations

from oomph.evidence.environment.model import Environment, Variable


def library_path(environment: Environment) -> tuple[tuple[str, Variable], ...]:
    """The folders of LD_LIBRARY_PATH, in order, each with the definition it stands in. Empty ones and references to
    the old value are left out."""
    found = environment.variable("LD_LIBRARY_PATH")
    if found is None or not found.value:
        return ()
    words = [word.strip().rstrip("/") for word in found.value.strip("\"'").split(":")]
    return tuple((word, found) for word in words if word and not word.startswith("$"))


def preloaded(environment: Environment) -> tuple[tuple[str, Variable], ...]:
    """The libraries of LD_PRELOAD."""
    found = environment.variable("LD_PRELOAD")
    if found is None or not found.value:
        return ()
    return tuple((word, found) for word in found.value.replace(":", " ").split())
