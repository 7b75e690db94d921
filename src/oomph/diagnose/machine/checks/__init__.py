"""The checks, one file each. A module here that defines a Check subclass is a check: nothing else has to be edited."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from oomph.diagnose.machine.base import Check

__all__ = ["Check", "all_checks"]


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of the codes. Raises RuntimeError when two share a code (a programming error)."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    checks = sorted((check() for check in Check.__subclasses__()), key=lambda check: check.code)
    codes = [check.code for check in checks]
    if len(set(codes)) != len(codes):
        raise RuntimeError(f"two checks share a code: {codes}")
    return tuple(checks)
