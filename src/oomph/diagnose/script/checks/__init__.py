"""The checks of scripts, one file each. A module here that defines a ScriptCheck is a check."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from oomph.diagnose.script.base import ScriptCheck

__all__ = ["ScriptCheck", "all_script_checks"]


@cache
def all_script_checks() -> tuple[ScriptCheck, ...]:
    """Every check, in the order of the codes. Raises RuntimeError when two share a code (a programming error)."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    checks = sorted((check() for check in ScriptCheck.__subclasses__()), key=lambda check: check.code)
    codes = [check.code for check in checks]
    if len(set(codes)) != len(codes):
        raise RuntimeError(f"two checks share a code: {codes}")
    return tuple(checks)
