"""What is known of changes and memory: one file per kind of change. A module here that defines a Kind is used.

`kind_for(key)` is the kind that knows most of a fact; the last one, `other`, takes what nobody knows.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from oomph.diagnose.runs.suspects.base import Judged, Kind

__all__ = ["Judged", "Kind", "all_kinds", "kind_for"]


@cache
def all_kinds() -> tuple[Kind, ...]:
    """Every kind, in the order in which they are asked."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    kinds = [kind() for kind in _leaves(Kind)]
    return tuple(sorted(kinds, key=lambda kind: (kind.order, kind.name)))


def kind_for(key: str) -> Kind:
    """The first kind that wants the fact."""
    return next(kind for kind in all_kinds() if kind.wants(key))


def _leaves(kind: type[Kind]) -> list[type[Kind]]:
    below = kind.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [kind]
