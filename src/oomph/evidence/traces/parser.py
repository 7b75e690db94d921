"""Tracebacks of one writer's lines, whatever printed them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oomph.evidence.model import Document, Frame, Position, Traceback
from oomph.evidence.traces.frames import RawFrame, read_code, read_frame

_HEADER = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"^\s*(?:[|│]\s*)?(?:E\s{1,10})?((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80})(?::\s?(.*))?$", re.DOTALL
)
_NAMED = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failed|Failure|Resources|Timeout|Warning|Killed|Abort)\w*$"
)
_BROKEN = re.compile(
    r'^[\s|│+]*File "[^"]{0,1000}(?:",?(?: (?:l(?:i(?:n(?:e(?: (?:\d{1,9},?(?: (?:in?)?)?)?)?)?)?)?)?)?)?\s*$'
)
#: So many lines of something else may stand inside a traceback (progress bars, other writers) before it is given up.
_PATIENCE = 30


@dataclass
class _Open:
    """A traceback while it is being read. `copies` counts headers that arrived before an exception line: several
    processes without prefixes print the same frames line by line."""

    start: int
    style: str
    name: str = ""
    frames: list[RawFrame] = field(default_factory=list)
    seen: set[tuple[str, int, str]] = field(default_factory=set)
    copies: int = 1
    idle: int = 0
    last: int = 0


class StreamTraces:
    """Reads the lines of one stream in order; `found` holds the finished tracebacks. `known` is shared by the streams
    of a document: many ranks print the same files, functions and code, which are kept once."""

    def __init__(self, document: Document, stream: str, known: dict[str, str]) -> None:
        self._document = document
        self._stream = stream
        self._once = known.setdefault
        self._open: _Open | None = None
        self._broken: tuple[int, str] | None = None
        self.found: list[Traceback] = []

    def feed(self, index: int, text: str) -> None:
        """Takes the next line of the stream."""
        if _HEADER in text:
            self._header(index, text)
            return
        if text.startswith("Exception has occurred:"):
            self._close("", "", index)
            name = text.partition(":")[2].strip()
            self._open = _Open(index, "vscode", name=name, last=index)
            return
        current = self._open
        frame = self._frame_of(index, text)
        if self._broken is not None and self._broken[0] == index:
            return
        if frame is not None:
            self._frame(index, frame)
            return
        if current is None:
            return
        if current.frames and read_code(text, current.frames[-1]) and current.last + 3 >= index:
            current.last = index if text.strip() else current.last
            return
        if current.style == "vscode":
            self._vscode(index, text)
            return
        self._exception(index, text)

    def _frame_of(self, index: int, text: str) -> RawFrame | None:
        """The frame that this line opens, alone or as the rest of a frame line that was broken by a wrap."""
        broken, self._broken = self._broken, None
        if broken is not None:
            for joint in ("", " "):
                frame = read_frame(broken[1] + joint + text.lstrip(" " if joint else ""), broken[0])
                if frame is not None:
                    return frame
        if not _may_be_frame(text):
            return None
        frame = read_frame(text, index)
        if frame is None and _BROKEN.match(text):
            self._broken = (index, text)
        return frame

    def end(self, index: int) -> None:
        """No more lines: what is open is kept as it is."""
        self._close("", "", index)

    def _header(self, index: int, text: str) -> None:
        current = self._open
        if (
            current is not None
            and current.style == "python"
            and index - current.start <= 6
            and not current.name
        ):
            current.copies += 1
            return
        self._close("", "", index)
        name = text[: text.find(_HEADER)].strip(" ─╭-+|")
        style = "rich" if "╭" in text or "──" in text or "+--" in text else "python"
        if name and re.fullmatch(r"[A-Za-z_][\w.]*", name) and _NAMED.search(name):
            style = "ipython"
        else:
            name = ""
        self._open = _Open(index, style, name=name, last=index)

    def _frame(self, index: int, frame: RawFrame) -> None:
        current = self._open
        if current is None:
            current = self._open = _Open(index, frame.style, last=index)
        current.idle = 0
        current.last = index
        key = (frame.file, frame.line, frame.function)
        if current.copies > 1 and key in current.seen:
            return
        current.seen.add(key)
        current.frames.append(frame)

    def _vscode(self, index: int, text: str) -> None:
        current = self._open
        assert current is not None
        if not current.frames and index - current.start <= 12:
            return
        if text.strip():
            current.frames.reverse()
            self._close(current.name, "", index)

    def _exception(self, index: int, text: str) -> None:
        current = self._open
        assert current is not None
        match = _EXCEPTION.match(text) if current.frames else None
        if match and (_NAMED.search(match[1]) or match[1] == current.name):
            copies, frames, start = current.copies, list(current.frames), current.start
            self._close(match[1], (match[2] or "").strip(), index)
            if copies > 1:
                self._open = _Open(
                    start, current.style, frames=frames, seen=current.seen, copies=copies - 1, last=index
                )
            return
        if text.strip():
            current.idle += 1
            if current.idle > _PATIENCE:
                self._close("", "", current.last)

    def _close(self, name: str, message: str, index: int) -> None:
        current, self._open = self._open, None
        if current is None or not (current.frames or name):
            return
        number, once = self._document.index, self._once
        line = self._document.lines[min(current.start, len(self._document.lines) - 1)]
        if current.style == "vscode" and not name:
            current.frames.reverse()
        self.found.append(
            Traceback(
                frames=tuple(
                    Frame(
                        once(f.file, f.file),
                        f.line,
                        once(f.function, f.function),
                        once(f.code, f.code),
                        once(f.span, f.span),
                        Position(number, f.index),
                    )
                    for f in current.frames
                ),
                exception=name or current.name,
                message=message,
                start=Position(number, current.start),
                end=Position(number, max(index if name else current.last, current.start)),
                stream=self._stream,
                rank=line.rank,
                style=current.style,
            )
        )


def _may_be_frame(text: str) -> bool:
    return (
        'File "' in text
        or ".py" in text
        or text.startswith(("File ", "Cell In", "Input In", "In [", "<ipython"))
        or (" in " in text and text.lstrip()[:1] in "│|")
    )
