"""The events of the simulated card, with Python stacks: the latest so many, as PyTorch's memory history keeps them."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

Frames = list[dict[str, Any]]

#: Frames of oomph itself, and of what torch puts between an operator and a mode, are no part of the program.
_OWN = f"{Path(__file__).resolve().parents[2]}/"
_BETWEEN = (
    "/torch/_compile.py",
    "/torch/_ops.py",
    "/torch/_dynamo/eval_frame.py",
    "/torch/utils/_python_dispatch.py",
)
#: Deeper stacks are cut, as torch cuts them.
_DEPTH = 100


class Event(NamedTuple):
    """One event. `kind` is a number of `memory.timeline.Kind`; for OOM the address is what was free."""

    kind: int
    address: int
    size: int
    time_us: int
    frames: Frames


class History:
    """The last `max_entries` events. Equal stacks are one list."""

    def __init__(self, max_entries: int) -> None:
        self.events: deque[Event] = deque(maxlen=max(1, max_entries))
        self._stacks: dict[tuple[int, ...], Frames] = {}
        self._codes: dict[int, CodeType] = {}

    def add(self, kind: int, address: int, size: int, frames: Frames) -> None:
        """Appends an event, now."""
        self.events.append(Event(kind, address, size, time.time_ns() // 1000, frames))

    def here(self) -> Frames:
        """The stack of the program, innermost frame first."""
        first = sys._getframe(1)  # noqa: SLF001 - traceback.walk_stack costs ten times as much
        frame: FrameType | None = first
        key: list[int] = []
        depth = 0
        while frame is not None and depth < _DEPTH:
            key += (id(frame.f_code), frame.f_lasti)
            frame = frame.f_back
            depth += 1
        identity = tuple(key)
        known = self._stacks.get(identity)
        if known is None:
            known = self._stacks[identity] = self._build(first)
        return known

    def _build(self, frame: FrameType | None) -> Frames:
        result: Frames = []
        depth = 0
        while frame is not None and depth < _DEPTH:
            code = frame.f_code
            # An identity stays one code's own as long as that code lives.
            self._codes[id(code)] = code
            file = code.co_filename
            if not file.startswith((_OWN, "<frozen")) and not file.endswith(_BETWEEN):
                result.append({"name": code.co_name, "filename": file, "line": frame.f_lineno})
            frame = frame.f_back
            depth += 1
        return result
