r"""Lines that hold several: line ends that a collector or a logger wrote out instead of printing them.

- rsyslog (`$EscapeControlCharactersOnReceive`, on by default) writes a control character as "#" and three octal
  digits: "#012" for a line feed, "#011" for a tab, "#033" for the escape of a colour code. The sign can be set; other
  daemons use "\".
- JSON and logfmt writers, and Python's repr(), escape as C does: "\n", "\t", "\"", "\\"; a record inside a record does
  it twice. repr() of `traceback.format_exception()` is a list of such strings.
- GitHub's workflow commands ("::error::...") write "%0A".
- Pages break lines with <br>.
- Webhooks carry a message as a form ("text=CUDA+out+of+memory.+Tried...") or a URL ("CUDA%20out%20of%20memory").
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

#: So many lines of one are kept, half of them its last: a traceback of a deep recursion has 3,000.
_MOST_LINES = 10_000
_HEADER = "Traceback (most recent call last)"
#: What shows that a line with "#012" is an error's text. The sign with digits also counts things ("batch #012").
_ERROR_TEXT = re.compile(r"[a-z](?:Error|Exception|Interrupt)\b|ut of memory|[#\\]012\s{1,12}File \"")
_OCTAL = re.compile(r"[#\\](01[1-5]|033)")
#: "#012" that is a number of its own: a space before it, and no text behind it.
_COUNTED = re.compile(r"(?:(?<=\s)|^)#012(?=[\s.,:;)\]]|$)")
_C_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_C_MEANS = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_LIST_JOINT = re.compile(r"(\\{1,2}n)(?:'|\\?\"), ?(?:'|\\?\")")
_ESCAPED_FRAME = re.compile(r"\\n\s{1,12}File \\{0,3}\"")
#: A logger that writes "\n" for a line feed and leaves the backslashes of Windows paths as they are.
_LINE_ENDS_ONLY = re.compile(r'File "[A-Za-z]:\\[^\\]')
_LINE_END = re.compile(r'(File "[^"]{1,1000}")|(?:\\r)?\\n')
_TWICE = re.compile(r"(?:last\):?|\", line \d{1,9}, in [\w<>.]{1,80})\\\\(?:r\\\\)?n")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_FORM_FIELD = re.compile(r"([\w.\[\]-]{1,60})=(.*)", re.DOTALL)
_FORM_NEEDLES = ("out+of+memory", "out%20of%20memory", "out%2520of%2520memory", "out%2Bof%2Bmemory")


def may_fold(text: str) -> bool:
    """Does any line of `text` (of any length) need a look by `unfold`?"""
    return (
        "#012" in text
        or "\\012" in text
        or ("\\n" in text and (_HEADER in text or "File " in text))
        or "%0A" in text
        or "out+of+" in text
        or "out%2" in text
        or "<br" in text
    )


def unfold(row: str) -> list[str] | None:
    """The lines that one line holds, decoded; None where it is just a line."""
    text = row
    if "out+of+" in text or "out%2" in text:
        text = _decode_forms(text)
    if "012" in text and ("#012" in text or "\\012" in text):
        text = _decode_octal(text)
    if "%0A" in text and _HEADER in text:
        text = text.replace("%0D", "").replace("%0A", "\n").replace("%25", "%")
    if "\\n" in text and (_HEADER in text or _ESCAPED_FRAME.search(text)):
        text = _decode_c(text)
    if "<br" in text and (_HEADER in text or _ERROR_TEXT.search(text)):
        text = _BREAK.sub("\n", text)
    if text is row:
        return None
    rows = text.split("\n")
    return rows if len(rows) <= _MOST_LINES else [*rows[: _MOST_LINES // 2], *rows[-_MOST_LINES // 2 :]]


def _decode_octal(text: str) -> str:
    if _HEADER not in text and _ERROR_TEXT.search(text) is None:
        return text
    if _COUNTED.sub("", text).find("012") < 0:
        return text
    counted = {match.start() for match in _COUNTED.finditer(text)}
    return _OCTAL.sub(lambda m: m[0] if m.start() in counted else chr(int(m[1], 8)), text)


def _decode_c(text: str) -> str:
    if _LINE_ENDS_ONLY.search(text):
        return _LINE_END.sub(lambda match: match[1] or "\n", text)
    text = _LIST_JOINT.sub(r"\1", text)
    for _ in range(2 if _TWICE.search(text) else 1):
        text = _C_ESCAPE.sub(_c_character, text)
    return text


def _c_character(match: re.Match[str]) -> str:
    if match[1]:
        code = int(match[1], 16)
        return match[0] if 0xD800 <= code < 0xE000 else chr(code)
    return _C_MEANS.get(match[2], match[0])


def _decode_forms(text: str) -> str:
    """Decodes the words of a line (between white space) that hold a failure's text; the fields of a form become
    lines."""
    words = re.split(r"(\s+)", text)
    decoded = [_decode_form(word) if any(n in word for n in _FORM_NEEDLES) else word for word in words]
    return text if decoded == words else "".join(decoded)


def _decode_form(word: str) -> str:
    if "out%2520of" in word or "out%2Bof" in word:
        word = unquote(word)
    plain = unquote if "out%20of" in word else unquote_plus
    parts = re.split(r"[&?]", word)
    lines: list[str] = []
    for part in parts:
        field = _FORM_FIELD.fullmatch(part)
        if field is None:
            lines.append(plain(part))
        else:
            lines += [f"{field[1]}=", plain(field[2])]
    return "\n".join(lines)
