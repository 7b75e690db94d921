"""Text from a log made harmless for a terminal, a page and a JSON document."""

from __future__ import annotations

import re

#: Longest string that any report takes over from the input; renderers may cut shorter.
MAX_CHARACTERS = 8000

#: ECMA-48 control sequences: CSI (also as the single character U+009B) with parameters and a final byte.
_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]")
#: C0 but tab and newline, DEL, C1, the marks that turn the direction of text round, byte order marks, and lone
#: surrogates (undecodable bytes of file names), which UTF-8 cannot carry.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
#: What CI services read as commands: GitHub ("::set-env", also after blanks), Azure and old GitHub ("##[", "##vso[",
#: anywhere in a line), TeamCity.
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_HASH_COMMAND = re.compile(r"##(?=\[|vso\[|teamcity\[)")


def clean(text: str) -> str:
    """`text` without control characters (tabs and newlines stay), so that a log cannot steer a terminal.

    Line ends become newlines; a lone surrogate becomes U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _CSI.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _CONTROLS.sub(
        lambda match: "\ufffd" if match[0] >= "\ud800" and match[0] != "\ufeff" else "", text
    )


def flat(text: str) -> str:
    """`text` on one line: every run of white space is one blank."""
    return " ".join(text.split())


def cut(text: str, limit: int = MAX_CHARACTERS) -> str:
    """At most about `limit` characters of `text`; the rest is counted, not dropped silently. A rest that is no longer
    than the words that count it stays."""
    if len(text) <= limit:
        return text
    short = f"{text[:limit].rstrip()} ... [{len(text) - limit:,} more characters]"
    return short if len(short) < len(text) else text


def without_commands(text: str) -> str:
    """`text` in which no line starts a CI service's command, for output that may land in a CI log."""
    if "::" in text:
        text = _COMMAND.sub(r"\1: ", text)
    if "##" in text:
        text = _HASH_COMMAND.sub("# #", text)
    return text
