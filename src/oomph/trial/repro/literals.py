"""Values and texts of others, as Python source that means nothing else."""

from __future__ import annotations

import json
import math
import textwrap

#: Where lines of a script end.
WIDTH = 100


def literal(value: object, indent: int = 0) -> str:
    """Python source of a value of a configuration: text, numbers, truth values, None, lists and tables of such.
    Tables and long lists are broken over lines, `indent` columns from the left. Raises TypeError for anything else."""
    short = _short(value)
    if len(short) + indent <= WIDTH - 8 or not isinstance(value, (dict, list, tuple)) or not value:
        return short
    inner, outer = " " * (indent + 4), " " * indent
    if isinstance(value, dict):
        parts = [f"{_short(key)}: {literal(each, indent + 4)}" for key, each in value.items()]
        return "{\n" + "".join(f"{inner}{part},\n" for part in parts) + outer + "}"
    parts = [_short(each) for each in value]
    # A list of numbers or names is filled, so that those of a layer each do not take a page.
    return (
        "[\n"
        + textwrap.fill(
            ", ".join(parts),
            WIDTH,
            initial_indent=inner,
            subsequent_indent=inner,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + ",\n"
        + outer
        + "]"
        if all(" " not in part for part in parts)
        else "[\n" + "".join(f"{inner}{part},\n" for part in parts) + outer + "]"
    )


def _short(value: object) -> str:
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, float):
        # repr() of these is no Python
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_short(key)}: {_short(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"{type(value).__name__} is no value of a configuration")


def _text(value: str) -> str:
    """A text in double quotes. JSON's escapes are Python's, but for characters beyond the first 65,536, which it writes
    as two: those take repr()'s way."""
    if all(ord(letter) < 0x10000 for letter in value):
        return json.dumps(value)
    return ascii(value)


def documented(sentence: str, first: str = "", margin: str = "") -> str:
    """Lines within a docstring in three double quotes. The first begins with `first`, the others with `margin`."""
    lines = wrapped(sentence, WIDTH - len(first))
    return "\n".join(escaped(f"{first if not place else margin}{line}") for place, line in enumerate(lines))


def escaped(line: str) -> str:
    """A line that stands in a docstring as it reads."""
    return line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def wrapped(sentence: str, width: int) -> list[str]:
    """The sentence in lines, with "?" for what ends a line or cannot be shown."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in sentence)
    return textwrap.wrap(plain, width, break_long_words=False, break_on_hyphens=False) or [""]
