"""A copy of a configuration file with one key changed: YAML, JSON or TOML. Comments and everything else stay."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from oomph.errors import InputError, UsageError
from oomph.trial.model import Value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST = 8 << 20


def changed(path: Path, key: str, value: Value) -> str:
    """The file's text with `key` (dotted) set to `value`. Raises InputError for a file that cannot be read, UsageError
    for a key that it does not have."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path}: larger than {_LARGEST:,} bytes: not a configuration")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    keys = key.split(".")
    suffix = path.suffix.lower()
    try:
        if suffix == ".toml":
            return _toml(path, text, keys, value)
        if suffix == ".json":
            return _json(path, text, keys, value)
        return _yaml(path, text, keys, value)
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply") from error


def _missing(path: Path, keys: list[str]) -> UsageError:
    return UsageError(f"{path} has no key {'.'.join(keys)} with one value: name it as it stands there.")


def _json(path: Path, text: str, keys: list[str], value: Value) -> str:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    place = content
    for one in keys[:-1]:
        place = _inner(place, one)
    last: Any = keys[-1]
    if isinstance(place, list) and last.isdigit() and int(last) < len(place):
        last = int(last)
    elif not isinstance(place, dict) or last not in place:
        raise _missing(path, keys)
    if isinstance(place[last], (dict, list)):
        raise _missing(path, keys)
    place[last] = value
    return json.dumps(content, indent=2) + "\n"


def _inner(place: Any, key: str) -> Any:
    if isinstance(place, dict):
        return place.get(key)
    if isinstance(place, list) and key.isdigit() and int(key) < len(place):
        return place[int(key)]
    return None


def _yaml(path: Path, text: str, keys: list[str], value: Value) -> str:
    """By the position of the value in the text, which PyYAML tells: anchors, tags and comments stay as they are."""
    import yaml

    try:
        node = yaml.compose(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from error
    for one in keys:
        node = _yaml_inner(yaml, node, one)
        if node is None:
            raise _missing(path, keys)
    if not isinstance(node, yaml.ScalarNode):
        raise _missing(path, keys)
    start, end = node.start_mark.index, node.end_mark.index
    # An anchor or a tag before the value stays.
    before = re.match(r"(?:[&!]\S*\s+)*", text[start:end])
    start += before.end() if before is not None else 0
    written = value if isinstance(value, (int, float)) else json.dumps(str(value), ensure_ascii=False)
    gap = " " if start and text[start - 1] == ":" else ""  # "key:" with nothing behind it
    return f"{text[:start]}{gap}{written}{text[end:]}"


def _yaml_inner(yaml: Any, node: Any, key: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        found = [value for name, value in node.value if getattr(name, "value", None) == key]
        return found[-1] if found else None
    if isinstance(node, yaml.SequenceNode) and key.isdigit() and int(key) < len(node.value):
        return node.value[int(key)]
    return None


_ENTRY = re.compile(r"(\s*([A-Za-z0-9_.\"'-]+(?:\s*\.\s*[A-Za-z0-9_\"'-]+)*)\s*=\s*)(.*)\Z", re.DOTALL)


def _toml(path: Path, text: str, keys: list[str], value: Value) -> str:
    """The one line whose change sets that key and nothing else, as both texts are read again."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    place: Any = before
    for one in keys[:-1]:
        place = _inner(place, one)
    if not isinstance(place, dict) or isinstance(place.get(keys[-1], {}), (dict, list)):
        raise _missing(path, keys)
    wanted = json.loads(json.dumps(before, default=str))
    inner: Any = wanted
    for one in keys[:-1]:
        inner = _inner(inner, one)
    inner[keys[-1]] = value
    written = repr(value) if isinstance(value, (int, float)) else json.dumps(value, ensure_ascii=False)
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        match = _ENTRY.match(line)
        if match is None or match[2].replace('"', "").replace("'", "").split(".")[-1].strip() != keys[-1]:
            continue
        ending = "\n" if line.endswith("\n") else ""
        made = "".join((*lines[:number], f"{match[1]}{written}{ending}", *lines[number + 1 :]))
        try:
            after = json.loads(json.dumps(tomllib.loads(made), default=str))
        except tomllib.TOMLDecodeError:
            continue
        if after == wanted:
            return made
    raise UsageError(
        f"{path}: {'.'.join(keys)} stands in a way that is not changed safely; give it a line of its own."
    )
