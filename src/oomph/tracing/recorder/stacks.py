"""The Python stack of each allocation, as torch's memory history keeps it: innermost frame first."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

Frames = list[dict[str, object]]

#: Frames of the tracer itself are no part of the traced program.
_OWN = f"{Path(__file__).resolve().parents[2]}/"
#: A name among the globals of the `-c` text that starts a trace's child: that is no part of the traced program either.
BOOT = "_oomph_boot"
#: Deeper stacks are cut, as torch cuts them.
_DEPTH = 100


class StackRecorder:
    """Takes stacks; equal ones are one list, so that a million events share a few thousand.

    Python walks a frame in a tenth of a microsecond, so what decides is to look at nothing but the code object's
    identity and the instruction. `hidden` are beginnings of file names whose frames are left out.
    """

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self._stacks: dict[tuple[int, ...], Frames] = {}
        self._frame: dict[tuple[int, int], dict[str, object] | None] = {}
        self._codes: dict[int, CodeType] = {}
        self._hidden = (_OWN, *hidden)

    def take(self, frame: FrameType | None) -> Frames:
        """The stack from `frame` outwards."""
        key: list[int] = []
        first, depth = frame, 0
        while frame is not None and depth < _DEPTH:
            key.append(id(frame.f_code))
            key.append(frame.f_lasti)
            frame = frame.f_back
            depth += 1
        identity = tuple(key)
        known = self._stacks.get(identity)
        if known is None:
            known = self._build(first)
            self._stacks[identity] = known
        return known

    def here(self) -> Frames:
        """The stack of the caller's caller."""
        return self.take(sys._getframe(2))  # noqa: SLF001 - traceback.walk_stack would cost ten times as much

    def _build(self, frame: FrameType | None) -> Frames:
        result: Frames = []
        depth = 0
        while frame is not None and depth < _DEPTH:
            code = frame.f_code
            # An identity stays one code's own as long as that code lives.
            self._codes[id(code)] = code
            place = (id(code), frame.f_lasti)
            if place not in self._frame:
                self._frame[place] = self._describe(frame)
            described = self._frame[place]
            if described is not None:
                result.append(described)
            frame = frame.f_back
            depth += 1
        return result

    def _describe(self, frame: FrameType) -> dict[str, object] | None:
        code = frame.f_code
        if code.co_filename.startswith(self._hidden) or code.co_filename.startswith("<frozen"):
            return None
        if frame.f_back is None and BOOT in frame.f_globals:
            return None
        return {"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno}


def hidden_files() -> tuple[str, ...]:
    """Files of torch through which operators only reach a dispatch mode: a real run does not pass there."""
    import torch

    root = Path(torch.__file__).parent
    return tuple(
        str(root / file)
        for file in ("_compile.py", "_dynamo/eval_frame.py", "_subclasses/", "utils/_python_dispatch.py")
    )
