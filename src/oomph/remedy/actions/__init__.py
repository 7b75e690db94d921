"""The actions, one file each. A module here that defines an Action subclass is an action: nothing else to edit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from oomph.remedy.actions.base import Action

__all__ = ["Action", "action_for", "all_actions"]


@cache
def all_actions() -> Mapping[str, Action]:
    """Code -> action. Raises RuntimeError when two share a code (a programming error)."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    actions = sorted((kind() for kind in Action.__subclasses__()), key=lambda action: action.code)
    found = {action.code: action for action in actions}
    if len(found) != len(actions):
        raise RuntimeError(f"two actions share a code: {[action.code for action in actions]}")
    return found


def action_for(code: str) -> Action | None:
    """The action with this code, None when there is none."""
    return all_actions().get(code)
