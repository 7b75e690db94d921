"""`--set key=value`: the script's own flags, changed on its command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from oomph.errors import UsageError
from oomph.tracing.target.model import Kind, Target

_KEY = re.compile(r"^[A-Za-z_][\w.\-/@+]*$")
_NUMBER = re.compile(r"^-[\d.][\d.eE+\-]*$")
_CONFIG = (".json", ".yaml", ".yml", ".toml")
#: Commands that take `key=value` words after their file (OmegaConf): torchtune and LLaMA-Factory.
_PLAIN = frozenset({"tune", "llamafactory-cli", "lmf"})


def override(target: Target, settings: Sequence[str]) -> Target:
    """The target with every `key=value` of `settings` applied, in order; a bare `key` is a switch.

    A flag that is on the command line is replaced where it stands, as it is spelled there; another is appended. For
    a FUNCTION the key is a keyword argument. Raises UsageError where a setting cannot be applied with certainty.
    """
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.lstrip("-")
        if not _KEY.match(key):
            raise UsageError(f"--set {setting}: write key=value, with the name of one of the script's flags.")
        if target.kind is Kind.FUNCTION:
            target = replace(
                target, keywords={**target.keywords, key.replace("-", "_"): value if equals else "True"}
            )
        else:
            arguments = _apply(target, key, value if equals else None, setting)
            target = replace(target, arguments=tuple(arguments))
    return target


def _apply(target: Target, key: str, value: str | None, setting: str) -> list[str]:
    words = list(target.arguments)
    if any(word.startswith((f"{key}=", f"+{key}=")) for word in words):
        return [_replaced_word(word, key, value, setting) for word in words]
    places = [place for place, word in enumerate(words) if _is_flag(word, key)]
    for place in reversed(places):
        _replace(words, place, value, setting)
    if places:
        return words
    if PurePath(target.program).name in _PLAIN:
        return [*words, f"{key}={'' if value is None else value}"]
    _refuse_config(words, target, key)
    flag = f"-{key}" if len(key) == 1 else f"--{key}"
    return [*words, flag] if value is None else [*words, flag, value]


def _is_flag(word: str, key: str) -> bool:
    if not word.startswith("-"):
        return False
    spelled = word.partition("=")[0]
    return spelled.lstrip("-").replace("-", "_") == key.replace("-", "_")


def _replaced_word(word: str, key: str, value: str | None, setting: str) -> str:
    for start in (f"{key}=", f"+{key}="):
        if word.startswith(start):
            if value is None:
                raise UsageError(f"--set {setting}: {word} on the command line has a value, so give one.")
            return start + value
    return word


def _replace(words: list[str], place: int, value: str | None, setting: str) -> None:
    """Changes the flag at `place`, in place."""
    spelled, equals, _ = words[place].partition("=")
    if equals:
        words[place] = spelled if value is None else f"{spelled}={value}"
        return
    after = place + 1
    while after < len(words) and not _starts_flag(words[after]):
        after += 1
    values = after - place - 1
    if values == 0:
        _switch(words, place, value)
    elif value is None:
        raise UsageError(f"--set {setting}: {spelled} has a value on the command line, so give one.")
    elif values == 1:
        words[place + 1] = value
    else:
        raise UsageError(
            f"--set {setting}: {spelled} is followed by {values} words on the command line, and which of them are its "
            "values is not certain. Change it there."
        )


def _starts_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NUMBER.match(word)


def _switch(words: list[str], place: int, value: str | None) -> None:
    """A flag without a value: `true` keeps it, `false` takes it away, another value is written after it."""
    if value is None or value.lower() == "true":
        return
    if value.lower() == "false":
        del words[place]
    else:
        words.insert(place + 1, value)


def _refuse_config(words: list[str], target: Target, key: str) -> None:
    """A script whose only argument is a file reads that alone: HfArgumentParser takes a lone JSON or YAML file."""
    if len(words) == 1 and words[0].endswith(_CONFIG):
        raise UsageError(
            f"{target.shown} takes its settings from {words[0]}: change {key} in a copy of that file, and trace that."
        )
