"""From a file or text to plain tables: JSON, TOML, YAML, printed Python objects, argument dumps and command lines.

Hostile files get one sentence: sizes, nesting and aliases are limited, and YAML is read without constructing anything
but plain values.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from oomph.errors import InputError
from oomph.job.importers import printed, shell

Syntax = Literal["json", "toml", "yaml", "printed", "dump", "command"]

#: No configuration is that large; logs are, and are not read here.
_LARGEST_BYTES = 4_000_000
#: PyYAML's own reader, which can be told what to refuse, takes seconds for more than this.
_LARGEST_YAML = 300_000
_MOST_ALIASES = 500
_MOST_NODES = 100_000
_DEEPEST = 40
_SECTION = re.compile(r"^[ \t]*\[{1,2}[\w.\-\" ]{1,100}\]{1,2}[ \t]*(?:#.*)?$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"^[ \t]*[\w.\-\"]{1,100}[ \t]*=", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A text that was taken apart. `table`: its keys and values. `printed`: the class that was printed
    ("TrainingArguments"). `command`: the words of a command line before its arguments; `flags` are in `table`."""

    name: str
    syntax: Syntax
    table: Mapping[str, object]
    text: str
    printed: str = ""
    command: shell.Command | None = field(default=None)


def load(path_or_text: Path | str) -> Source:
    """The plain content of a file (a Path, or text that is the name of an existing file) or of text. InputError where
    nothing can be read."""
    name, text = _text(path_or_text)
    if not text.strip():
        raise InputError(f"{name or 'the text'} is empty")
    return parse(text, name)


def _text(path_or_text: Path | str) -> tuple[str, str]:
    if isinstance(path_or_text, str):
        short = path_or_text.strip()
        try:
            is_file = len(short) < 1_000 and "\n" not in short and Path(short).is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            if len(path_or_text) > _LARGEST_BYTES:
                raise InputError(
                    f"the text has {len(path_or_text)} characters: no configuration is that large"
                )
            return "", path_or_text
        path_or_text = Path(short)
    name = path_or_text.name
    try:
        if path_or_text.is_dir():
            raise InputError(f"{path_or_text} is a folder: name the configuration file in it")
        with path_or_text.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path_or_text}: {getattr(error, 'strerror', None) or error}") from None
    if content[:2] == b"PK" or content[:1] == b"\x80":
        raise InputError(
            f"{name} is a pickle, and reading one runs the code in it: print the arguments instead "
            "(python -c 'import torch; print(torch.load(\"training_args.bin\", weights_only=False))')"
        )
    if len(content) > _LARGEST_BYTES:
        raise InputError(f"{name} is larger than {_LARGEST_BYTES} bytes: no configuration is that large")
    try:
        return name, content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} is not text") from None


def parse(text: str, name: str = "") -> Source:
    """Takes a text apart, by what it looks like."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith("{"):
        data = _json(text, name)
        if data is not None:
            return Source(name, "json", data, text)
    found = printed.find(text)
    if found is not None:
        return Source(name, "printed", found[1], text, printed=found[0])
    dump = printed.dump(text)
    if dump:
        return Source(name, "dump", dump, text)
    if _SECTION.search(text) and _ASSIGNMENT.search(text):
        data = _toml(text)
        if data is not None:
            return Source(name, "toml", data, text)
    command = shell.find(text)
    if command is not None:
        return Source(name, "command", command.flags, text, command=command)
    if stripped.startswith("#!"):
        raise InputError(f"{name or 'the text'} is a script without a command that starts a training")
    return Source(name, "yaml", _yaml(text, name), text)


def _json(text: str, name: str) -> Mapping[str, object] | None:
    try:
        data = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return _plain_table(data, name) if isinstance(data, dict) else None


def _toml(text: str) -> Mapping[str, object] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return _plain_table(tomllib.loads(text), "")
    except (ValueError, RecursionError):
        return None


def _yaml(text: str, name: str) -> Mapping[str, object]:
    import yaml

    aliases = 0

    def compose_node(self: Any, parent: object, index: object) -> object:
        nonlocal aliases
        if self.check_event(yaml.AliasEvent):
            aliases += 1
            if aliases > _MOST_ALIASES:
                raise yaml.YAMLError(f"more than {_MOST_ALIASES} aliases")
        return yaml.SafeLoader.compose_node(self, parent, index)

    # Plain values only, and a limited number of aliases.
    loader = type("Loader", (yaml.SafeLoader,), {"compose_node": compose_node})
    called = name or "the text"
    if len(text) > _LARGEST_YAML:
        raise InputError(f"{called} has {len(text)} characters: no YAML configuration is that large")
    try:
        documents = list(yaml.load_all(text, Loader=loader))
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        line = f" (line {where.line + 1})" if where is not None else ""
        raise InputError(
            f"{called} is no configuration that is known here: {' '.join(what.split())[:200]}{line}"
        ) from None
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError, KeyError) as error:
        raise InputError(
            f"{called} cannot be read as YAML: {str(error)[:200] or type(error).__name__}"
        ) from None
    filled = [each for each in documents if each is not None]
    if len(filled) > 1:
        raise InputError(f"{called} has {len(filled)} YAML documents: give one")
    if not filled or not isinstance(filled[0], dict):
        raise InputError(f"{called} has no keys and values of a configuration")
    return _plain_table(filled[0], name)


def _plain_table(data: object, name: str) -> Mapping[str, object]:
    budget = [_MOST_NODES]
    result = _plain(data, budget, 0, name)
    assert isinstance(result, dict)
    return result


def _plain(data: object, budget: list[int], depth: int, name: str) -> object:
    """Copies with text as keys. Aliases are expanded, so that what looks small and is huge is refused."""
    budget[0] -= 1
    if budget[0] < 0 or depth > _DEEPEST:
        what = f"more than {_MOST_NODES} values" if budget[0] < 0 else f"more than {_DEEPEST} levels"
        raise InputError(f"{name or 'the text'} has {what}: it is no configuration")
    if isinstance(data, dict):
        return {str(key): _plain(value, budget, depth + 1, name) for key, value in data.items()}
    if isinstance(data, (list, tuple, set, frozenset)):
        return [_plain(value, budget, depth + 1, name) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    return data if data is None or isinstance(data, (bool, int, float, str)) else str(data)
