"""Printed Python objects (`TrainingArguments(...)`, one `key=value` a line) and Megatron-LM's dump of its arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice

#: What people print: transformers' and TRL's arguments, BitsAndBytesConfig, LoraConfig; a `Trainer(` call of Lightning.
_CLASS = re.compile(r"\b([A-Z]\w{0,60}(?:Arguments|Config)|Trainer)\(")
#: A config prints as `BitsAndBytesConfig {` and JSON in transformers.
_JSON_CLASS = re.compile(r"\b([A-Z]\w{0,60}Config) ?(?=\{)")
#: `num_layers ..................................... 32`
_DUMP = re.compile(r"^(?:\[[^\]\n]{1,40}\]:?)?[ \t]*([a-z][\w]{1,60}) \.{3,80} ?(.{0,500})$", re.MULTILINE)
_ENUM = re.compile(r"<?[A-Z]\w*\.[A-Z_0-9]+: ?('[^'\n]{0,80}'|\d+)>")
_LINE = re.compile(r"\n[ \t]*([A-Za-z_]\w{0,80})=")
_KEY = re.compile(r"\s{0,200}([A-Za-z_]\w{0,80})\s{0,20}=\s{0,20}")
#: Longer values (lists of label names, settings of data) hold no sizes.
_LONGEST = 20_000
_MOST_KEYS = 2_000
_MOST_OBJECTS = 100


def find(text: str) -> tuple[str, Mapping[str, object]] | None:
    """The class and the arguments of the first printed object; None where there is none."""
    for match in islice(_CLASS.finditer(text[:2_000_000]), _MOST_OBJECTS):
        arguments = dict(_arguments(text, match.end()))
        if arguments:
            return match.group(1), arguments
    match_json = _JSON_CLASS.search(text[:2_000_000])
    if match_json is not None:
        table = _json_object(text, match_json.end())
        if table:
            return match_json.group(1), table
    return None


def dump(text: str) -> Mapping[str, object]:
    """The arguments in a dump of Megatron-LM (`key ...... value`, at least five of them); {} where there is none."""
    found = {m.group(1): literal(m.group(2).strip()) for m in _DUMP.finditer(text)}
    return found if len(found) >= 5 else {}


def _json_object(text: str, start: int) -> Mapping[str, object]:
    import json

    try:
        data, _end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _arguments(text: str, start: int) -> Iterator[tuple[str, object]]:
    """`key=value` up to the parenthesis that closes the object. A damaged text gives those before the damage."""
    place = start
    for _ in range(_MOST_KEYS):
        match = _KEY.match(text, place)
        if match is None:
            # Texts are printed without quotes: a comma can be part of one. The next line begins with a key again.
            match = _LINE.search(text, place, place + _LONGEST)
            if match is None or text.find("\n)", place, match.start()) >= 0:
                return
        end = _end_of_value(text, match.end())
        yield match.group(1), literal(text[match.end() : end].strip())
        place = end + 1
        if end >= len(text) or text[end] == ")":
            return


def _end_of_value(text: str, start: int) -> int:
    """Where a value ends: at the comma, or the closing parenthesis, that is inside no bracket and no quotes."""
    depth = 0
    quote = ""
    place = start
    stop = min(len(text), start + _LONGEST)
    while place < stop:
        char = text[place]
        if quote:
            if char == "\\":
                place += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{<":
            depth += 1
        elif char in ")]}>":
            if depth == 0:
                return place
            depth -= 1
        elif depth == 0 and (char == "," or (char == "\n" and _KEY.match(text, place + 1) is not None)):
            return place
        place += 1
    return stop


def literal(text: str) -> object:
    """A printed value as Python's own (True, 8, 'x', {...}, <HubStrategy.END: 'end'> as 'end'); else the text."""
    short = text[:_LONGEST]
    try:
        value: object = ast.literal_eval(_ENUM.sub(r"\1", short))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return short
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return value if value is None or isinstance(value, (bool, int, float, str, list, dict, tuple)) else short
