"""The rules, one file each. A module here that defines a Rule subclass is a rule: nothing else has to be edited."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from oomph.diagnose.rules.base import Match, Rule

__all__ = ["Match", "Rule", "all_rules", "rule_for"]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the codes. Raises RuntimeError when two share a code (a programming error)."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    rules = sorted((rule() for rule in Rule.__subclasses__()), key=lambda rule: rule.code)
    codes = [rule.code for rule in rules]
    if len(set(codes)) != len(codes):
        raise RuntimeError(f"two rules share a code: {codes}")
    return tuple(rules)


def rule_for(code: str) -> Rule | None:
    """The rule with this code or cause name, in any case; None when there is none."""
    wanted = code.strip().lower()
    for rule in all_rules():
        if wanted in (rule.code.lower(), rule.cause.lower(), rule.name.lower()):
            return rule
    return None
