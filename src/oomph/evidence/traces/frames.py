"""How the printers of tracebacks write one frame: Python, rich, IPython, pytest.

A frame line gives file, line and function; a code line behind it the source; a line of carets the part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The quotes may be a spreadsheet's (doubled) or a word processor's (curved).
_PYTHON = re.compile(
    r'^[\s|│+]*File (?:"{1,2}|[“”„])([^"“”]{1,1000})(?:"{1,2}|[“”]), line (\d{1,9})(?:, in (.{1,200}?))?\s*[|│]?$'
)
_RICH = re.compile(r"^\s*[│|]\s*(\S.{0,400}?):(\d{1,9}) in (\S.{0,200}?)(?:\s*[│|])?\s*$")
_RICH_CODE = re.compile(r"^\s*[│|]\s*[❱>]\s*(\d{1,9}) [│|] ?(.*)$")
_QUOTED = re.compile('File ["“”„]')
_IPYTHON = re.compile(r"^File (\S.{0,400}?):(\d{1,9}), in (\S.{0,400}?)\s*$")
_IPYTHON_CELL = re.compile(r"^(?:Cell In|Input In|In) ?\[(\d{1,6})\], line (\d{1,9})\s*$")
_IPYTHON_OLD = re.compile(r"^(\S.{0,400}?\.py|<ipython-input-\S{1,80}>) in (\S.{0,400}?)\s*$")
_ARROW = re.compile(r"^-{1,6}> ?(\d{1,9})\s?(.*)$")
_PYTEST = re.compile(r"^(\S{1,400}\.py):(\d{1,9}): (?:in (\S{1,200}))?\s*$")
_CARETS = re.compile(r"^[\s|│]*[~^][~^\s]*[|│]?$")
#: More of a source line is not kept: whoever reads code looks for names in it, and lines can be huge.
_LONGEST_CODE = 1_000


@dataclass
class RawFrame:
    """A frame while it is being read."""

    file: str
    line: int
    function: str
    style: str
    index: int
    code: str = ""
    span: str = ""
    indent: int = 0


def read_frame(text: str, index: int) -> RawFrame | None:
    """The frame that this line opens, or None. `index` is the line's index in its document."""
    if "File " in text and _QUOTED.search(text):
        match = _PYTHON.match(text)
        if match:
            return RawFrame(match[1], int(match[2]), (match[3] or "").strip(), "python", index)
        return None
    if "in" not in text and ".py:" not in text and "line" not in text:
        return None
    if text.lstrip()[:1] in ("│", "|"):
        match = _RICH.match(text)
        if match and (".py" in match[1] or "<" in match[1]):
            return RawFrame(match[1].strip(), int(match[2]), match[3], "rich", index)
        return None
    if text.startswith("File "):
        match = _IPYTHON.match(text)
        if match:
            return RawFrame(match[1], int(match[2]), _name(match[3]), "ipython", index)
    match = _IPYTHON_CELL.match(text)
    if match:
        return RawFrame(f"<cell {match[1]}>", int(match[2]), "<module>", "ipython", index)
    match = _PYTEST.match(text)
    if match:
        return RawFrame(match[1], int(match[2]), match[3] or "", "pytest", index)
    match = _IPYTHON_OLD.match(text)
    if match:
        return RawFrame(match[1], 0, _name(match[2]), "ipython", index)
    return None


def _name(signature: str) -> str:
    """`Conv2d.forward(self, input)` -> `forward`; `<cell line: 0>()` -> `<module>`."""
    if signature.startswith("<cell"):
        return "<module>"
    return signature.partition("(")[0].rpartition(".")[2]


def read_code(text: str, frame: RawFrame) -> bool:
    """True when the line is source code of `frame` in its printer's style; the frame keeps it."""
    if frame.style == "rich":
        match = _RICH_CODE.match(text)
        if match:
            frame.code = _code(match[2])
            return True
        return text.lstrip()[:1] in ("│", "|")
    if frame.style == "ipython":
        match = _ARROW.match(text)
        if match:
            frame.line = frame.line or int(match[1])
            frame.code = match[2].strip()[:_LONGEST_CODE]
            return True
        return bool(re.match(r"^\s{2,}\d{1,9}\s", text)) or not text.strip()
    if not text.strip():
        return False
    if _CARETS.match(text):
        if frame.code:
            frame.span = _under(frame, text)
        return True
    if frame.code or (frame.style == "python" and text[:1] not in (" ", "\t", "|", "│", "+")):
        return False
    frame.code = text.strip().strip("|│").strip()[:_LONGEST_CODE]
    frame.indent = len(text) - len(text.lstrip())
    return True


def _code(text: str) -> str:
    """The code in a row of a box, without the box's right border."""
    text = text.rstrip()
    if text[-1:] in ("│", "|"):
        text = text[:-1]
    return text.strip()[:_LONGEST_CODE]


def _under(frame: RawFrame, carets: str) -> str:
    """The part of the code that the carets point at."""
    start = len(carets) - len(carets.lstrip()) - frame.indent
    length = len(carets.strip().strip("|│").strip())
    if start < 0:
        return ""
    return frame.code[start : start + length]
