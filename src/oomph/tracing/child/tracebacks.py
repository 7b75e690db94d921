"""The script's own traceback: without the frames of oomph that stand above, between and below its own."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

#: src/oomph/tracing, as it stands in the file names of code.
_OURS = str(Path(__file__).resolve().parents[1])
_PYTHON = tuple(sorted({str(Path(traceback.__file__).parent), sys.prefix, sys.base_prefix}))


def is_ours(filename: str) -> bool:
    """Whether code of this file belongs to the tracer."""
    return filename.startswith(_OURS)


def strip(error: BaseException) -> None:
    """Takes oomph's frames out of the tracebacks of an exception and of those it came from. Where nothing would be
    left, nothing is taken out."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        kept = _kept(one.__traceback__)
        if kept is not None:
            one.__traceback__ = kept
        one = one.__cause__ or one.__context__


def _kept(first: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    each = first
    while each is not None:
        if not is_ours(each.tb_frame.f_code.co_filename):
            entries.append(each)
        each = each.tb_next
    below: TracebackType | None = None
    for entry in reversed(entries):
        below = TracebackType(below, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return below


def innermost(error: BaseException) -> FrameType | None:
    """The frame that raised."""
    each, frame = error.__traceback__, None
    while each is not None:
        frame, each = each.tb_frame, each.tb_next
    return frame


def text(error: BaseException) -> str:
    """As Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def place(frame: FrameType | None) -> str:
    """`file:line in function` of the nearest frame of the user's code; of the frame itself where there is none."""
    each = frame
    while each is not None:
        name = each.f_code.co_filename
        if not is_ours(name) and not name.startswith(("<", *_PYTHON)) and "site-packages" not in name:
            return _shown(each)
        each = each.f_back
    return "an unknown place" if frame is None else _shown(frame)


def _shown(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
