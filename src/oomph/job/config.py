"""A config.json as a `Model`: from its text, from a folder, from the local cache of the hub."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from oomph.errors import InputError
from oomph.job.model import Dimension, DType, Model

#: A config.json has some kilobytes; those with a label for each of 20,000 classes have one or two megabytes.
_LARGEST_BYTES = 16 << 20
_LONGEST_SHOWN = 200
#: Denoisers have no model_type of their own; where one is written all the same, the class that it means.
_CLASSES = {"flux": "FluxTransformer2DModel", "dit": "DiTTransformer2DModel", "sd3": "SD3Transformer2DModel"}
_DTYPES: dict[str, DType] = {
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
}


def from_config(config: Mapping[str, object], name: str = "") -> Model:
    """The model that a config.json describes. Nested tables become dotted keys (`text_config.hidden_size`); what a
    `Dimension` cannot hold (lists of tables) is left out. A model of diffusers has its `_class_name` as family."""
    pairs = dict(_flat(config))
    family = config.get("model_type") or config.get("_class_name") or ""
    if not isinstance(family, str):
        raise InputError(f"The model_type of {name or 'the configuration'} is not a text.")
    family = _CLASSES.get(family.lower(), family)
    dimensions = tuple(Dimension(key=key, value=pairs[key]) for key in sorted(pairs))
    return Model(name=name, family=family, config=dimensions)


def to_config(model: Model) -> dict[str, object]:
    """The configuration as config.json has it: dotted keys become tables again, tuples lists."""
    result: dict[str, object] = {}
    for each in model.config:
        table = result
        *path, last = each.key.split(".")
        for part in path:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                break  # a key that is a value elsewhere: the dotted key is then a key of its own
            table = inner
        else:
            table[last] = list(each.value) if isinstance(each.value, tuple) else each.value
    return result


def from_folder(path: Path, name: str = "") -> Model:
    """The model of a config.json, or of a folder that holds one. Raises InputError where there is none to read."""
    file = path
    try:
        file = path / "config.json" if path.is_dir() else path
        with file.open("rb") as stream:
            text = stream.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be a path
        shown = str(file)[:_LONGEST_SHOWN]
        raise InputError(f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(text) > _LARGEST_BYTES:
        raise InputError(f"{file} is too large for a model's config.json.")
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{file} is not JSON: {error}.") from None
    if not isinstance(config, dict):
        raise InputError(f"{file} is not a model's configuration: it holds no table.")
    if not config.get("model_type") and not config.get("_class_name"):
        raise InputError(f"{file} names no model_type, so it is not a model's config.json.")
    return from_config(config, name or str(path))


def from_cache(name: str) -> Model | None:
    """The model of this name on the hub, from the hub's local cache; None when its config.json is not there."""
    folder = _cache() / ("models--" + name.replace("/", "--"))
    try:
        reference = folder / "refs" / "main"
        commits = [reference.read_text(encoding="utf-8").strip()] if reference.is_file() else []
        commits += sorted(each.name for each in (folder / "snapshots").iterdir())
    except (OSError, ValueError):
        return None
    for commit in commits:
        file = folder / "snapshots" / commit / "config.json"
        if file.is_file():
            return from_folder(file, name)
    return None


def stored_dtype(model: Model) -> DType | None:
    """The dtype in which config.json says that the weights are stored; None where it does not say."""
    for key in ("torch_dtype", "dtype", "text_config.torch_dtype", "text_config.dtype"):
        value = model.get(key)
        if isinstance(value, str):
            return _DTYPES.get(value.removeprefix("torch."))
    return None


def _cache() -> Path:
    """Where huggingface_hub keeps what it has loaded: as its constants.py decides."""
    place = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if place:
        return Path(place).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


_Value = int | float | bool | str | tuple[int | float | str, ...] | None


def _flat(config: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, _Value]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            if all(isinstance(one, (int, float, str)) for one in value):
                yield name, tuple(value)
        elif value is None or isinstance(value, (int, float, bool, str)):
            yield name, value
