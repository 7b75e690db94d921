"""YAML and JSON configurations (Accelerate, DeepSpeed, arguments of a trainer): their scalars with their lines."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from oomph.errors import InputError
from oomph.evidence.script.source import Config

_DEEPEST = 40
_MOST_VALUES = 20_000


def read_config(name: str, text: str) -> Config:
    """JSON is read as YAML, which keeps the lines. Aliases are not followed. Raises InputError where it is neither."""
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        found: list[tuple[str, object, int]] = []
        for document in documents:
            for value in _scalars(document, "", 0, set()):
                found.append(value)
                if len(found) >= _MOST_VALUES:
                    break
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise InputError(f"{name} is no YAML or JSON that can be read{where}.") from error
    if not found:
        raise InputError(f"{name} has no settings: name a configuration with keys and values.")
    return Config(name, text, tuple(found))


def _scalars(
    node: yaml.Node | None, key: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, object, int]]:
    if node is None or depth > _DEEPEST or id(node) in seen:
        return
    if isinstance(node, yaml.ScalarNode):
        yield key, _value(node), node.start_mark.line + 1
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            word = name.value if isinstance(name, yaml.ScalarNode) else "?"
            yield from _scalars(value, f"{key}.{word}" if key else word, depth + 1, seen)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            yield from _scalars(value, f"{key}[{place}]", depth + 1, seen)


def _value(node: yaml.ScalarNode) -> object:
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError):
        return node.value
