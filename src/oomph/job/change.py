"""One value of a job, or several, changed by name: `batch.micro=4`, `method.lora.rank=16`.

Paths are the fields of `job.model`; numbers of the model's configuration stand under `model.config`. Values may be
text, as people write it on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from oomph.errors import UsageError
from oomph.job.model import Dimension, Job

#: Longer than any path or value.
_LONGEST = 200
_NOTHING = ("none", "null", "")


def with_values(job: Job, values: Mapping[str, object]) -> Job:
    """The job with each value at its path. Text becomes what the field takes: "4", "true", "none", "25MiB" for sizes in
    bytes, "q_proj,v_proj" for lists.

    Raises UsageError, with what there is, for a path that no job has, and for a value that the field cannot take.
    """
    for path, value in values.items():
        job = _with_value(job, path.strip(), value)
    return job


def setting(text: str) -> tuple[str, str]:
    """Path and value of "PATH=VALUE". Raises UsageError for anything else."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(f"{_shown(text)}: write it as PATH=VALUE, as in batch.micro=4")
    return path.strip(), value.strip()


def _with_value(job: Job, path: str, value: object) -> Job:
    parts = path.split(".")
    if parts[:2] == ["model", "config"] and len(parts) > 2:
        return _with_dimension(job, ".".join(parts[2:]), value)
    changed: Job = _changed(job, Job, parts, value, path)
    return changed


def _changed(part: Any, kind: type[Any], names: Sequence[str], value: object, path: str) -> Any:
    """`part` (a struct of type `kind`, or None) with the field that the names lead to set to the value."""
    name, *rest = names
    types = get_type_hints(kind)
    if name not in types:
        raise UsageError(_no_field(path, name, list(types)))
    its = types[name]
    inner = _struct_of(its)
    if rest:
        if inner is None:
            raise UsageError(f"{_shown(path)}: {name} is one value and has no {_shown(rest[0])}.")
        new: object = _changed(None if part is None else getattr(part, name), inner, rest, value, path)
    else:
        if inner is not None and not _is_nothing(value):
            fields = ", ".join(get_type_hints(inner))
            raise UsageError(
                f"{_shown(path)} has parts; give one of them: {path}.NAME with NAME of {fields}."
            )
        new = _converted(value, its, path)
    if part is None:
        return _made(kind, name, new, path)
    return msgspec.structs.replace(part, **{name: new})


def _made(kind: type[Any], name: str, new: object, path: str) -> Any:
    """A part that was not there, with one field given."""
    try:
        return kind(**{name: new})
    except TypeError:
        required = [each.name for each in msgspec.structs.fields(kind) if each.required]
        raise UsageError(f"{_shown(path)}: give {' and '.join(required)} of the same part first.") from None


def _converted(value: object, kind: Any, path: str) -> object:
    if isinstance(value, str):
        value = _read(value.strip(), kind, path)
    try:
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except (msgspec.ValidationError, OverflowError):
        raise UsageError(
            f"{_shown(path)}: {_shown(str(value))} is no value for it; {_takes(kind)}."
        ) from None


def _read(text: str, kind: Any, path: str) -> object:
    """Text as the field's type understands it."""
    choices = _choices(kind)
    if type(None) in get_args(kind) and text.lower() in _NOTHING:
        return None
    if _takes_list(kind):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if choices:
        plain = text.lower().replace("-", "_")
        return plain if plain in choices else text
    if path.endswith(("_bytes", "_bucket")) and not text.isdigit():
        from oomph.units import size_given

        size = size_given(text)
        if size is not None:
            return size
    if bool in (kind, *get_args(kind)) and text.lower() in ("yes", "on", "no", "off"):
        return text.lower() in ("yes", "on")
    return text


def _with_dimension(job: Job, key: str, value: object) -> Job:
    """The job with one number of the model's configuration."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
    if isinstance(value, list):
        value = tuple(value)
    others = [each for each in job.model.config if each.key != key]
    try:
        new = msgspec.convert({"key": key, "value": value}, Dimension)
    except msgspec.ValidationError:
        raise UsageError(f"model.config.{_shown(key)}: {_shown(str(value))} is no value for it.") from None
    config = tuple(sorted((*others, new), key=lambda each: each.key))
    return msgspec.structs.replace(job, model=msgspec.structs.replace(job.model, config=config))


def _struct_of(kind: Any) -> type[Any] | None:
    """The part that a field holds, or may hold; None where it holds a value."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def _takes_list(kind: Any) -> bool:
    return getattr(kind, "__origin__", None) is tuple


def _choices(kind: Any) -> tuple[str, ...]:
    """The words of a field that takes one of several; () for others."""
    words = [each for each in get_args(kind) if isinstance(each, str)]
    for inner in get_args(kind):
        words += [each for each in get_args(inner) if isinstance(each, str)]
    return tuple(words)


def _takes(kind: Any) -> str:
    choices = _choices(kind)
    if choices:
        return f"it takes {', '.join(choices)}"
    if _takes_list(kind):
        return "it takes names, separated by commas"
    for plain, words in ((bool, "true or false"), (int, "a whole number"), (float, "a number")):
        if plain in (kind, *get_args(kind)):
            return f"it takes {words}"
    return "it takes a word"


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _no_field(path: str, name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # for a mistyped name only

    close = get_close_matches(name, known, n=2, cutoff=0.6)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(known)}."
    where = f"{_shown(path)}: n" if path != name else "N"
    return f"{where}othing of a job is called {_shown(name)}. {hint}"


def _shown(text: str) -> str:
    clean = "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])
    return clean if len(text) <= _LONGEST else f"{clean}..."
