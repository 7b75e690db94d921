"""Configurations of well-known models, so that a job or a script that names one needs no network.

The data are in the JSON files beside this one: one line a model, on top of what its family shares, with a source. A
model's `config` is what its config.json says of dimensions, ids and dropout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class TokenizerFacts:
    """What is known of a tokenizer. `length` counts its tokens (an embedding may be longer), `tokens` gives the ids
    of the special ones by text, `bos` to `mask` are ids; `adds` says what is put around a text: "bos", "eos", "cls"
    (cls before and sep after) or nothing. `chat`: it ships a chat template."""

    length: int
    tokens: dict[str, int] = field(default_factory=dict)
    adds: str = ""
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    unk: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    chat: bool = False

    def text_of(self, number: int | None) -> str | None:
        """The special token's text."""
        if number is None:
            return None
        return next((text for text, one in self.tokens.items() if one == number), f"<special{number}>")


@dataclass(frozen=True)
class KnownModel:
    """A model whose configuration is shipped. `config` is what its config.json says of dimensions and ids."""

    name: str
    config: dict[str, Any]
    tokenizer: TokenizerFacts | None


@cache
def _models() -> dict[str, tuple[str, str]]:
    """The lower-cased names by which a model is asked for, with its entry's name."""
    names: dict[str, tuple[str, str]] = {}
    for name, entry in _data()["models"].items():
        for one in (name, *entry.get("also", ())):
            names[one.lower()] = (one, name)
    return names


@cache
def _data() -> dict[str, dict[str, Any]]:
    """All files as one: families and models by name."""
    merged: dict[str, dict[str, Any]] = {"families": {}, "models": {}}
    for file in sorted(_FOLDER.glob("*.json")):
        content = msgspec.json.decode(file.read_bytes())
        for part, entries in merged.items():
            entries.update(content[part])
    return merged


def names() -> tuple[str, ...]:
    """The names that are known, as the hub writes them."""
    return tuple(shown for shown, _ in _models().values())


def find(name: str) -> KnownModel | None:
    """The model of this name on the hub, None when it is not shipped. Case does not count, as on the hub."""
    found = _models().get(str(name).lower())
    if found is None:
        return None
    entry = _data()["models"][found[1]]
    family = _data()["families"][entry["family"]]
    facts = None
    if "tokenizer" in entry:
        facts = TokenizerFacts(**{**family.get("tokenizer", {}), **entry["tokenizer"]})
    return KnownModel(found[0], {**family["config"], **entry["config"]}, facts)
