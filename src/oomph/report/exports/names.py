"""Text of a snapshot made fit for a file that others read: without control characters, and redacted if asked."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.diagnose.snapshot.places import is_generated
from oomph.memory.stacks import Frame
from oomph.report.clean import clean, cut, flat
from oomph.report.redact import Redactor

_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]", re.IGNORECASE)
_PYTHONS_OWN = re.compile(r"[\\/]lib[\\/]python[0-9.]*[\\/]", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<(path(?:-[0-9]+)?)>")


class Names:
    """Shows functions, files and other text of one export. Each is one line and valid Unicode, whatever it was.

    With `redact`, what `frames` and `others` give away of people and machines is learned first, so that a name is
    replaced in every place; `source` is the snapshot's own file, shown as `<file-1>`. `keep_paths`: for readers that
    judge frames by their files, redacted paths look like paths.
    """

    def __init__(
        self,
        *,
        redact: bool,
        source: str = "",
        frames: Iterable[Frame] = (),
        others: Iterable[str] = (),
        keep_paths: bool = False,
    ) -> None:
        self._keep_paths = keep_paths
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

    def _redacted_path(self, path: str) -> str:
        assert self._redactor is not None
        shown = self._redactor.path(path)
        return _as_path(path, shown) if self._keep_paths else shown

    def _show(self, text: str, *, path: bool) -> str:
        known = self._shown.get((text, path))
        if known is None:
            known = _line(text)
            if self._redactor is not None:
                known = self._redacted_path(known) if path else self._redactor(known)
            known = cut(known)
            self._shown[(text, path)] = known
        return known


def _as_path(path: str, shown: str) -> str:
    """A redacted path as a path again, by which the user's own code, an installed package, Python's library and what
    torch.compile wrote can still be told from each other."""
    if is_generated(Frame("", path, 0)):
        return f"/torchinductor/{shown.rpartition('/')[2]}"
    if _INSTALLED.search(path):
        return f"/site-packages/{shown}"
    if _PYTHONS_OWN.search(path):
        return f"/lib/python3/{shown.rpartition('/')[2]}"
    return _PLACEHOLDER.sub(r"/\1", shown)


def _line(text: str) -> str:
    return flat(clean(text))
