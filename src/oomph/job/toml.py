"""A job as a TOML file, and back. docs/jobs.md has every key."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from oomph.errors import InputError, UsageError
from oomph.job.config import from_config
from oomph.job.model import Framework, Job, Model
from oomph.job.names import model as model_named
from oomph.job.names import shipped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: In a file, a field that may be None is none by this word: TOML has no null.
_NONE = "none"
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_SHOWN = 100
#: TOML promises whole numbers of 64 bits.
_BEYOND = 2**63


def to_toml(job: Job) -> str:
    """The job as TOML, without what is as by default. `from_toml` gives the same job back."""
    default = Job()
    values: list[str] = []
    tables: list[str] = []
    if shipped(job.model.name) == job.model:
        values.append(f"model = {_text(job.model.name)}")
    elif job.model != default.model:
        tables.append(_model_table(job.model))
    for field in msgspec.structs.fields(Job):
        value = getattr(job, field.name)
        if field.name == "model" or value == getattr(default, field.name):
            continue
        if isinstance(value, msgspec.Struct):
            tables += _tables(field.name, value)
        else:
            values.append(f"{field.name} = {_written(value)}")
    return "".join(part + "\n" for part in ("\n".join(values), *tables) if part).lstrip("\n")


def from_toml(text: str, *, network: bool = False) -> Job:
    """The job that a TOML file describes. A model by its name alone is looked up (`names.model`); `network` lets the
    hub be asked.

    Raises InputError for what is not TOML, UsageError for keys and values that no job has, with what was meant.
    """
    try:
        content = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"The job is not TOML: {error}.") from None
    model = content.pop("model", None)
    job: Job = _part(Job, content, "")
    if model is None:
        return job
    return msgspec.structs.replace(job, model=_model(model, network=network))


def _model_table(model: Model) -> str:
    """`[model]` with all of it. That `family` is there says that nothing is to be looked up."""
    lines = ["\n[model]", f"name = {_text(model.name)}", f"family = {_text(model.family)}"]
    nothing = [each.key for each in model.config if each.value is None]
    if nothing:
        lines.append(f"nulls = {_written(tuple(nothing))}")
    given = [each for each in model.config if each.value is not None]
    if given:
        lines.append("\n[model.config]")
        lines += [f"{_key(each.key)} = {_written(each.value)}" for each in given]
    return "\n".join(lines)


def _tables(path: str, part: msgspec.Struct) -> Iterator[str]:
    """The table of a part and those of the parts in it, without what is as by default."""
    lines = [f"\n[{path}]"]
    inner: list[str] = []
    for field in msgspec.structs.fields(type(part)):
        value = getattr(part, field.name)
        if not field.required and value == field.default:
            continue
        if isinstance(part, Framework) and field.name == "versions":
            inner.append(f"\n[{path}.versions]")
            inner += [f"{_key(library)} = {_text(version)}" for library, version in value]
        elif isinstance(value, msgspec.Struct):
            inner += _tables(f"{path}.{field.name}", value)
        else:
            lines.append(f"{field.name} = {_written(value)}")
    if len(lines) > 1 or not inner:
        yield "\n".join(lines)
    if inner:
        yield "\n".join(inner)


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else _text(name)


def _written(value: object) -> str:
    """A value as TOML writes it."""
    if value is None:
        return f'"{_NONE}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text if set(text) & set(".einf") else f"{text}.0"
    return str(value)


def _text(value: str) -> str:
    """A basic string: JSON's escapes are TOML's, and DEL needs one too."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _model(given: object, *, network: bool) -> Model:
    """The model: by its name, or by a table."""
    if isinstance(given, str):
        return model_named(given, network=network)
    if not isinstance(given, dict):
        raise UsageError("model takes a name in quotes, or a table [model] with name, family and config.")
    _no_others(given, ("name", "family", "nulls", "config"), "model.")
    name = _value(given.get("name", ""), str, "model.name")
    nulls = _value(given.get("nulls", []), tuple[str, ...], "model.nulls")
    config = given.get("config", {})
    if not isinstance(config, dict):
        raise UsageError("model.config takes a table of config.json's keys.")
    own = from_config({**config, **dict.fromkeys(nulls)}, name)
    if len(own.config) < len(nulls):
        raise UsageError("model.config holds a list or a table that no model's config.json has there.")
    if "family" in given:
        return msgspec.structs.replace(own, family=_value(given["family"], str, "model.family"))
    if own.family or not name:
        return own
    base = model_named(name, network=network)
    merged = {each.key: each for each in (*base.config, *own.config)}
    return msgspec.structs.replace(base, config=tuple(merged[key] for key in sorted(merged)))


def _part(kind: type[Any], table: Mapping[str, object], path: str) -> Any:
    """A part of a job from its table."""
    hints = get_type_hints(kind)
    _no_others(table, tuple(hints), path)
    values: dict[str, object] = {}
    for name, value in table.items():
        where, inner = f"{path}{name}", _struct_of(hints[name])
        if kind is Framework and name == "versions":
            values[name] = _versions(value, where)
        elif inner is not None and isinstance(value, dict):
            values[name] = _part(inner, value, f"{where}.")
        elif inner is not None and not (value == _NONE and type(None) in get_args(hints[name])):
            raise UsageError(f"{where} takes a table: [{where}].")
        else:
            values[name] = None if inner is not None else _value(value, hints[name], where)
    missing = [
        each.name for each in msgspec.structs.fields(kind) if each.required and each.name not in values
    ]
    if missing:
        raise UsageError(f"{path.rstrip('.')} needs {' and '.join(missing)}.")
    return kind(**values)


def _versions(value: object, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise UsageError(f'{where} takes a table of libraries with their versions: torch = "2.4.1".')
    return tuple(sorted(value.items()))


def _value(value: object, kind: Any, where: str) -> Any:
    """A value as its field takes it. Sizes in bytes may have a unit, whole numbers be written as 5e8."""
    kinds = get_args(kind) if get_origin(kind) is not tuple else (kind,)
    if value == _NONE and type(None) in kinds:
        return None
    if int in (kind, *kinds):
        if isinstance(value, str) and where.endswith("_bytes"):
            from oomph.units import size_given

            value = size_given(value) or value
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
    try:
        if isinstance(value, int) and not -_BEYOND <= value < _BEYOND:
            raise OverflowError
        return msgspec.convert(value, kind, strict=True)
    except (msgspec.ValidationError, OverflowError):
        raise UsageError(
            f"{where}: {_shown(value)} is no value for it; {_takes(kind, kinds, where)}."
        ) from None


def _takes(kind: Any, kinds: Sequence[Any], where: str) -> str:
    words = [each for inner in (kind, *kinds) for each in (inner, *get_args(inner)) if isinstance(each, str)]
    if words:
        return f"it takes {', '.join(dict.fromkeys(words))}"
    if get_origin(kind) is tuple:
        return "it takes a list of names"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}
    taken = next((text for plain, text in names.items() if plain in (kind, *kinds)), "a value")
    unit = ' or a size such as "25MiB"' if where.endswith("_bytes") else ""
    return f"it takes {taken}{unit}{' or none in quotes' if type(None) in kinds else ''}"


def _no_others(table: Mapping[str, object], known: Sequence[str], path: str) -> None:
    """Raises UsageError for a key that is not one of these."""
    other = next((key for key in table if key not in known), None)
    if other is None:
        return
    from difflib import get_close_matches  # for a mistyped key only

    close = get_close_matches(other, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}."
    raise UsageError(f"A job has no {_shown(path + other)}; {hint}")


def _struct_of(kind: Any) -> type[Any] | None:
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def _shown(value: object) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value)[:_LONGEST_SHOWN])
    return f"{text}..." if len(str(value)) > _LONGEST_SHOWN else text
