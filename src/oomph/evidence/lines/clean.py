"""Removes from one line what terminals, web pages and pastes put around the text that a program wrote."""

from __future__ import annotations

import html
import re

#: CSI and OSC sequences and two-byte escapes (ECMA-48).
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\](?:[^\x07\x1b]*(?:\x07|\x1b\\))?|\x1b[@-_]?")
#: Colour codes whose escape character was lost or spelled out on the way ("[31m", "\x1b[31m", "^[[31m").
_SPELLED_ANSI = re.compile(r"(?:\\x1b|\\u001[bB]|\\033|\\e|\^\[|␛)?\[(?:[0-9]{1,3}(?:;[0-9]{1,3}){0,6})?m")
_SPELLED_HINT = re.compile(r"\[(?:0|3[0-9]|39|1;3[0-9]|38;5;[0-9]{1,3})m")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TAG = re.compile(
    r"</?(?:td|th|tr|table|tbody|thead|br|p|div|span|pre|code|html|body|head|title|li|ul|ol|b|i|em|strong|a|"
    r"font|details|summary|blockquote|h[1-6])(?:\s[^<>]{0,400})?/?>",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"\s{0,3}(?:>(?!>) ?){1,4}")
#: No table's columns are further apart; patterns that skip white space need not cross a desert of it.
_WIDEST = 200
_WIDE = re.compile(rf"(?<!\s)\s{{{_WIDEST + 1},}}")


def strip_ansi(text: str, *, spelled: bool = False) -> str:
    """`text` without terminal escapes; with `spelled` also without colour codes that lost their escape."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if spelled and "m" in text:
        text = _SPELLED_ANSI.sub("", text)
    return text


def has_spelled_ansi(text: str) -> bool:
    """True when `text` (a whole document's sample) holds colour codes without their escape character."""
    return _SPELLED_HINT.search(text) is not None


def strip_controls(text: str) -> str:
    """`text` without C0 controls (tabs stay) and without the byte-order mark."""
    if not text.isprintable():
        text = _CONTROL.sub("", text).replace("\ufeff", "")
    return text


def narrow(text: str) -> str:
    """`text` with no run of white space longer than 200 characters."""
    return _WIDE.sub(" " * _WIDEST, text) if len(text) > _WIDEST else text


def strip_markup(text: str) -> str:
    """Entities resolved and the tags of common page markup removed; `<module>` and `<lambda>` stay."""
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    return text


def strip_quote(text: str) -> str:
    """A pasted line without its leading "> " (up to four levels); a prompt ">>>" stays."""
    if ">" not in text[:8]:
        return text
    match = _QUOTE.match(text)
    if match is None or text.startswith(">>>"):
        return text
    return text[match.end() :]
