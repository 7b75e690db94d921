"""The arguments of a training: TrainingArguments, argparse's Namespace, dataclasses, tables, or the command line."""

from __future__ import annotations

import dataclasses
import enum
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from oomph.recording.fingerprint.found import Found
from oomph.recording.fingerprint.secrets import masked_command

#: How deep tables are followed, and how many arguments are kept.
_DEEPEST, _MOST = 6, 2000
_FLAG = re.compile(r"--?[A-Za-z]")


def arguments(found: Found, given: object = None, command: Sequence[str] | None = None) -> None:
    """`arguments.*`, and `command`. Without anything given, the command line's options are the arguments."""
    argv = list(sys.argv if command is None else command)
    found.put("command", masked_command(shlex.join(argv)))
    if given is None:
        _put(found, "arguments", of_command_line(argv[1:]), 0)
    elif isinstance(given, (list, tuple)) and given and all(isinstance(each, str) for each in given):
        _put(found, "arguments", of_command_line(list(given)), 0)
    elif isinstance(given, (list, tuple)):
        for each in given:
            _put(found, "arguments", _table(each), 0)
    else:
        _put(found, "arguments", _table(given), 0)


def of_command_line(argv: Sequence[str]) -> dict[str, str]:
    """`--lr 1e-4 --bf16 --model=gpt2 extra.key=1` as a table: flags without a value are "True", what is given twice is
    listed, words that belong to nothing are counted (`0`, `1`, ...)."""
    result: dict[str, str] = {}
    words, index = 0, 0
    while index < len(argv):
        word = argv[index]
        index += 1
        name, given, value = word.partition("=")
        if _FLAG.match(word):
            name = name.lstrip("-").replace("-", "_")
            values = [value] if given else []
            while not given and index < len(argv) and not _FLAG.match(argv[index]) and "=" not in argv[index]:
                values.append(argv[index])
                index += 1
            text = " ".join(values) if values else "True"
            result[name] = f"{result[name]}, {text}" if name in result else text
        elif given and re.fullmatch(r"\+{0,2}[\w./@-]+", name):
            result[name.lstrip("+")] = value
        else:
            result[str(words)] = word
            words += 1
    return result


def _table(given: object) -> Mapping[Any, Any]:
    """The fields of whatever holds arguments."""
    if isinstance(given, Mapping):
        return given
    to_dict = getattr(given, "to_dict", None)
    if callable(to_dict) and not isinstance(given, type):
        with suppress(Exception):
            held = to_dict()
            if isinstance(held, Mapping):
                return held
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {each.name: getattr(given, each.name, None) for each in dataclasses.fields(given)}
    items = getattr(given, "items", None)  # OmegaConf and the like
    if callable(items):
        with suppress(Exception):
            return dict(items())
    held = getattr(given, "__dict__", None)
    return held if isinstance(held, Mapping) else {}


def _put(found: Found, name: str, value: object, depth: int) -> None:
    if len(found.values) >= _MOST:
        found.miss("arguments", f"only the first {_MOST} values are kept")
        return
    if isinstance(value, enum.Enum):
        value = value.value
    nested = _nested(value)
    if nested is not None and depth < _DEEPEST:
        for key, held in nested.items():
            if not str(key).startswith("_"):
                _put(found, f"{name}.{key}", held, depth + 1)
        return
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - any object may be an argument, with any __str__
        found.miss(name, f"its value cannot be shown ({type(error).__name__})")
        return
    if " object at 0x" in text or text.startswith("<function"):
        text = getattr(value, "__qualname__", type(value).__qualname__)  # an address differs in every run
    found.put(name, text)


def _nested(value: object) -> Mapping[Any, Any] | None:
    """Tables and dataclasses in a table; None for what is one value. An empty table is one: {}."""
    if isinstance(value, Mapping):
        return value or None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _table(value) or None
    kind = type(value)
    if kind.__name__ in ("Namespace", "SimpleNamespace", "DictConfig"):
        return _table(value) or None
    return None
