"""config.json as the numbers of a model: flat, sorted, comparable."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.errors import UsageError
from oomph.job.model import Dimension, Model

#: A config has some dozens of keys; more nesting than this is not a model's configuration.
_DEEPEST = 6
_MOST = 5_000


def model_of(config: Mapping[str, object], name: str = "") -> Model:
    """The model of a config.json. Nested parts (`text_config`, `rope_scaling`) have dotted keys. UsageError where it
    has no `model_type`, since nothing else tells what the numbers mean."""
    family = config.get("model_type")
    if not isinstance(family, str) or not family:
        raise UsageError("the model's configuration has no model_type: is it a config.json of transformers?")
    return Model(name=name, family=family, config=dimensions(config))


def dimensions(config: Mapping[str, object]) -> tuple[Dimension, ...]:
    """The keys and values of a configuration, sorted by key. Lists of lists and of tables are left out: none of them
    is a size of a model."""
    found: dict[str, Dimension] = {}
    _walk(config, "", 0, found)
    return tuple(found[key] for key in sorted(found))


def _walk(table: Mapping[str, object], prefix: str, depth: int, found: dict[str, Dimension]) -> None:
    if depth > _DEEPEST:
        raise UsageError(f"the model's configuration nests deeper than {_DEEPEST} tables at {prefix[:100]!r}")
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _walk(value, f"{name}.", depth + 1, found)
        elif value is None or isinstance(value, (bool, int, float, str)):
            found[name] = Dimension(key=name, value=value)
        elif isinstance(value, (list, tuple)):
            items = tuple(v for v in value if isinstance(v, (int, float, str)))
            if len(items) == len(value):
                found[name] = Dimension(key=name, value=items)
        if len(found) > _MOST:
            raise UsageError(f"the model's configuration has more than {_MOST} keys")
