"""Recorded traces, played again on the simulated allocator: to check the simulation, and to ask what if.

The names are loaded on first use: they need numpy, and a plan uses the parts of this package that do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Replay", "Start", "blind", "exact", "start_state"]

if TYPE_CHECKING:
    from oomph.memory.replay.judge import blind, exact
    from oomph.memory.replay.result import Replay
    from oomph.memory.replay.start import Start, start_state

_LAZY = {"Replay": "result", "Start": "start", "blind": "judge", "exact": "judge", "start_state": "start"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'oomph.memory.replay' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"oomph.memory.replay.{module}"), name)
