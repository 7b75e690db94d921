"""The script's own traceback: without the frames of oomph that stand above, between and below its own."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

#: src/oomph/tracing, as it stands in the file names of code.
_OURS = str(Path(__file__).resolve().parents[1])
_TORCH = f"{os.sep}torch{os.sep}"
#: What PyTorch puts around the method of a dispatch mode, so above each frame of the tracer that an operator calls:
#: file of torch, function.
_AROUND = (("_compile.py", "inner"), ("_dynamo/eval_frame.py", "_fn"))
#: What operators raise for arguments that are wrong, on a GPU too. NotImplementedError is a gap of the trace, of which
#: every frame is of use.
_RAISED_BY_OPERATORS = (RuntimeError, ValueError, TypeError, IndexError)
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
        kept = _kept(one)
        if kept is not None:
            one.__traceback__ = kept
        one = one.__cause__ or one.__context__


def _kept(error: BaseException) -> TracebackType | None:
    entries = _entries(error)
    wrong = isinstance(error, _RAISED_BY_OPERATORS) and not isinstance(error, NotImplementedError)
    if wrong and entries and not is_ours(_file(entries[-1])):
        entries = _up_to_operator(entries)
    kept: list[TracebackType] = []
    for entry in entries:
        if not is_ours(_file(entry)):
            kept.append(entry)
            continue
        while kept and _is_around(kept[-1]):
            kept.pop()
    below: TracebackType | None = None
    for entry in reversed(kept):
        below = TracebackType(below, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return below


def _entries(error: BaseException) -> list[TracebackType]:
    entries = []
    each = error.__traceback__
    while each is not None:
        entries.append(each)
        each = each.tb_next
    return entries


def _up_to_operator(entries: list[TracebackType]) -> list[TracebackType]:
    """Without what stands below the last call of an operator, if that is PyTorch's and oomph's code only: on a GPU an
    operator is one call, whose arguments C++ checks. The tracer's own frame, which is dropped later, stays."""
    own = len(entries)
    while own and (is_ours(_file(entries[own - 1])) or _TORCH in _file(entries[own - 1])):
        own -= 1
    for place in range(own, len(entries)):
        code = entries[place].tb_frame.f_code
        if is_ours(code.co_filename) and code.co_name == "__torch_dispatch__":
            return entries[: place + 1]
    return entries


def _is_around(entry: TracebackType) -> bool:
    code = entry.tb_frame.f_code
    return any(
        code.co_name == name and code.co_filename.endswith(f"{_TORCH}{file.replace('/', os.sep)}")
        for file, name in _AROUND
    )


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


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
