"""What terminals, launchers, web pages and people do to a message: each function turns clean text into hostile text."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterable
from itertools import zip_longest

_SIZE = re.compile(r"\d[\d.]* (?:bytes|[KMG]i?B)")
_NUMBER = re.compile(r"\d+\.\d\d")

Layout = Callable[[str], str]


def each_line(change: Callable[[str], str]) -> Layout:
    """A layout that changes every line."""
    return lambda text: "\n".join(change(row) for row in text.splitlines())


def prefixed(prefix: str) -> Layout:
    return each_line(lambda row: prefix + row)


def cut(text: str, width: int) -> str:
    """Hard-wrapped at exact columns, in the middle of words and numbers, as a terminal's copy is."""
    return "\n".join(
        row[at : at + width] for row in text.splitlines() for at in range(0, max(1, len(row)), width)
    )


def cut_and_trimmed(text: str, width: int) -> str:
    """As `cut`, with the blanks at the ends of the rows lost."""
    return "\n".join(row.rstrip() for row in cut(text, width).splitlines())


def wrapped(text: str, width: int) -> str:
    """Wrapped between words; a long word keeps its row."""
    return "\n".join(
        textwrap.fill(row, width, break_long_words=False, break_on_hyphens=False) for row in text.splitlines()
    )


def indented(text: str, width: int) -> str:
    """Wrapped between words, the continuation rows indented, as log viewers and YAML print it."""
    return "\n".join(
        textwrap.fill(row, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for row in text.splitlines()
    )


def boxed(text: str, width: int = 78) -> str:
    """Inside a box as rich draws it: wrapped between words, padded, a bar on both sides."""
    inner = width - 4
    rows = [
        part
        for row in text.splitlines()
        for part in textwrap.wrap(row, inner, break_long_words=True, break_on_hyphens=False) or [""]
    ]
    bar = "─" * (width - 2)
    return "\n".join([f"╭{bar}╮", *(f"│ {row:<{inner}} │" for row in rows), f"╰{bar}╯"])


def boxed_ascii(text: str, width: int = 78) -> str:
    """The same box on a terminal without box characters."""
    return boxed(text, width).translate(str.maketrans("╭╮╰╯─│", "++++-|"))


def coloured_sizes(text: str) -> str:
    return _SIZE.sub(lambda size: f"\x1b[1;35m{size[0]}\x1b[0m", text)


def coloured_numbers(text: str) -> str:
    return _NUMBER.sub(lambda number: f"\x1b[35m{number[0]}\x1b[0m", text)


def coloured_lines(text: str) -> str:
    return "\n".join(f"\x1b[31m{row}\x1b[0m" for row in text.splitlines())


def coloured_digits(text: str) -> str:
    """A colour inside the number, around its fraction."""
    return _NUMBER.sub(lambda n: n[0].replace(".", ".\x1b[38;5;196m") + "\x1b[39m", text)


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n") + "\r\n"


def squeezed(text: str) -> str:
    """No blank after punctuation."""
    return re.sub(r"([.;,:]) +", r"\1", text)


def spaced(text: str) -> str:
    """Blanks doubled."""
    return text.replace(" ", "  ")


def unbroken(text: str) -> str:
    """No-break spaces between number and unit, as a word processor writes them."""
    return _SIZE.sub(lambda size: size[0].replace(" ", "\u00a0"), text)


def glued(text: str) -> str:
    """No blank between number and unit."""
    return _SIZE.sub(lambda size: size[0].replace(" ", ""), text)


def html_page(text: str) -> str:
    rows = "\n".join(html.escape(row) for row in text.splitlines())
    return f"<html><body>\n<pre>\n{rows}\n</pre>\n</body></html>"


def html_cell(text: str) -> str:
    return "\n".join(f"<tr><td>7</td><td>{html.escape(row)}</td></tr>" for row in text.splitlines())


#: Layouts that keep every message on the rows it was printed on.
LAYOUTS: dict[str, Layout] = {
    "a rank prefix": prefixed("[rank3]: "),
    "a torchrun tee prefix": prefixed("[default3]:"),
    "a Ray prefix": prefixed("(TrainWorker pid=20451, ip=10.0.0.2) "),
    "a coloured Ray prefix": prefixed("\x1b[36m(TrainWorker pid=20451)\x1b[0m "),
    "a container prefix": prefixed("2025-03-04T10:00:09.411223321Z stderr F "),
    "a rank prefix in a container": prefixed("2025-03-04T10:00:09.411223321Z stderr F [rank3]: "),
    "a docker-compose prefix": prefixed("trainer-1  | "),
    "a task prefix": prefixed("3: "),
    "indentation": prefixed("      "),
    "quoting": prefixed("> "),
    "quoting twice": prefixed("> > "),
    "coloured sizes": coloured_sizes,
    "coloured numbers": coloured_numbers,
    "colours inside numbers": coloured_digits,
    "coloured lines": coloured_lines,
    "CRLF": crlf,
    "no blank after punctuation": squeezed,
    "doubled blanks": spaced,
    "no-break spaces": unbroken,
    "no blank before units": glued,
    "escaped for HTML": html.escape,
    "a web page": html_page,
    "table cells": html_cell,
    "a box": boxed,
    "a narrow box": lambda text: boxed(text, 60),
    "an ASCII box": boxed_ascii,
    "a quoted box in colour": lambda text: prefixed("> ")(coloured_lines(boxed(text))),
}

#: Layouts that break a message into rows of at most a width.
WRAPS: dict[str, Callable[[str, int], str]] = {
    "cut": cut,
    "cut and trimmed": cut_and_trimmed,
    "wrapped": wrapped,
    "wrapped and indented": indented,
    "cut, then prefixed": lambda text, width: prefixed("[rank3]: ")(cut(text, width)),
    "wrapped, then quoted": lambda text, width: prefixed("> ")(wrapped(text, width)),
    "cut, CRLF": lambda text, width: crlf(cut(text, width)),
}


def traceback(message: str) -> str:
    """The message below a traceback, as it stands in a log."""
    return (
        "Traceback (most recent call last):\n"
        '  File "/workspace/train.py", line 88, in <module>\n'
        "    loss.backward()\n"
        f"{message}"
    )


def interleaved(texts: Iterable[str]) -> str:
    """The rows of several writers, one of each in turn."""
    rows = zip_longest(*(text.splitlines() for text in texts))
    return "\n".join(row for turn in rows for row in turn if row is not None)
