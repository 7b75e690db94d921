"""The rules of `kernels/rules/`, found by looking into the folder."""

from __future__ import annotations

import importlib
import pkgutil

from oomph.tracing.kernels import rules
from oomph.tracing.kernels.rule import KernelRule, RuleSet


def all_rules() -> RuleSet:
    """Every rule, in the order of its file's name: each file of `kernels/rules/` has a `RULE` or several `RULES`.

    Rules hold nothing between calls, so one set serves any number of traces.
    """
    found: list[KernelRule] = []
    for module in sorted(pkgutil.iter_modules(rules.__path__), key=lambda item: item.name):
        loaded = importlib.import_module(f"{rules.__name__}.{module.name}")
        found += getattr(loaded, "RULES", None) or [loaded.RULE]
    return RuleSet(found)
