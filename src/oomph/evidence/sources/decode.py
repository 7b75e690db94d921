"""Bytes of text to str: invalid bytes become U+FFFD, NULs and byte-order marks go, "\\r\\n" becomes "\\n"."""

from __future__ import annotations

import re

#: Looking back keeps a long run of carriage returns from being tried from each of them.
_LINE_END = re.compile(r"(?<!\r)\r+\n")
_NULS = re.compile(rb"\x00+")


def decode(data: bytes) -> str:
    """`data` as text. NULs (of a crashed machine's file system, or of a piece of UTF-16 in another encoding's file)
    are dropped, and carriage returns before a line end."""
    if b"\x00" in data:
        data = _NULS.sub(b"", data)
    text = data.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        text = text[1:]
    if "\r\n" in text:
        text = _LINE_END.sub("\n", text)
    return text
