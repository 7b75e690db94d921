"""Text of a snapshot made fit for a file that others read: without control characters, and redacted if asked."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.memory.stacks import Frame
from oomph.report.clean import clean, cut, flat
from oomph.report.redact import Redactor


class Names:
    """Shows functions, files and other text of one export. Each is one line and valid Unicode, whatever it was.

    With `redact`, what `frames` and `others` give away of people and machines is learned first, so that a name is
    replaced in every place; `source` is the snapshot's own file, shown as `<file-1>`.
    """

    def __init__(
        self, *, redact: bool, source: str = "", frames: Iterable[Frame] = (), others: Iterable[str] = ()
    ) -> None:
        self._redactor = Redactor() if redact else None
        self._shown: dict[tuple[str, bool], str] = {}
        if self._redactor is not None:
            self._redactor.learn_inputs([_line(source)])
            texts = {text for frame in frames for text in (frame.function, frame.file)}
            for text in sorted({*texts, *others}):
                self._redactor.learn(_line(text))

    def text(self, text: str) -> str:
        """A function's name, or a sentence."""
        return self._show(text, path=False)

    def file(self, path: str) -> str:
        """A whole path."""
        return self._show(path, path=True)

    def lines(self, text: str) -> str:
        """Text of several lines, which stay."""
        text = clean(text)
        if self._redactor is not None:
            self._redactor.learn(text)
            text = self._redactor(text)
        return cut(text)

    def frame(self, frame: Frame) -> Frame:
        """The frame with its two texts shown."""
        return Frame(self.text(frame.function), self.file(frame.file), frame.line)

    def place(self, frame: Frame) -> str:
        """`function file:line`, without the line where none is known (C++ frames)."""
        shown = self.frame(frame)
        line = f":{shown.line}" if shown.line > 0 else ""
        return f"{shown.function} {shown.file}{line}"

    def _show(self, text: str, *, path: bool) -> str:
        known = self._shown.get((text, path))
        if known is None:
            known = _line(text)
            if self._redactor is not None:
                known = self._redactor.path(known) if path else self._redactor(known)
            known = cut(known)
            self._shown[(text, path)] = known
        return known


def _line(text: str) -> str:
    return flat(clean(text))
