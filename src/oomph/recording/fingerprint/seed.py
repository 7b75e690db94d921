"""The seed."""

from __future__ import annotations

import sys
from collections.abc import Callable

from oomph.recording.fingerprint.found import Found

_NAMES = ("arguments.seed", "arguments.random_seed", "arguments.training.seed", "arguments.debug.seed")


def seed(found: Found, given: int | None = None) -> None:
    """`seed`: as given, as the arguments say, else PyTorch's."""
    named = next((found.values[name] for name in _NAMES if name in found.values), None)
    if given is not None or named is not None:
        found.put("seed", given if given is not None else named)
        return
    initial: Callable[[], int] | None = getattr(sys.modules.get("torch"), "initial_seed", None)
    if initial is None:
        found.miss("seed", "neither the arguments nor PyTorch tell one")
    else:
        found.put("seed", initial())
