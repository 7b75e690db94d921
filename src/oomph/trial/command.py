"""The user's command with the values of one trial in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oomph.errors import OomphError, UsageError
from oomph.trial.configs import changed
from oomph.trial.model import Value, Variable

#: A word that is nothing but a placeholder, with an option's name before it at most: code and JSON look different.
_PLACEHOLDER = re.compile(r"(?:[-\w.+/]+[=:])?\{([A-Za-z_]\w*)\}\Z", re.ASCII)
#: The value of an environment variable that is not to be set.
_UNSET = ""
#: {trial}: the trial's own folder, where its outputs may go.
TRIAL = "trial"


@dataclass(frozen=True)
class Template:
    """A command and what is varied in it. `environment` are variables that it is given besides (KEY=VALUE; placeholders
    are replaced in the values). Files that are changed are looked for from `working_directory`."""

    command: tuple[str, ...]
    variables: tuple[Variable, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: Path = field(default_factory=Path.cwd)

    def check(self) -> tuple[str, ...]:
        """Raises UsageError for a variable that is used nowhere, a placeholder of no variable, a file that is not
        named, before anything runs. Returns remarks."""
        notes = []
        texts = (*self.command, *self.environment.values())
        known = {TRIAL, *(one.name for one in self.variables if one.kind == "placeholder")}
        for text in texts:
            match = _PLACEHOLDER.match(text)
            if match is not None and match[1] not in known:
                raise UsageError(
                    f"{{{match[1]}}} stands in the command and is no --param: give --param {match[1]}=VALUES."
                )
        for one in self.variables:
            if one.kind == "placeholder" and not any(f"{{{one.name}}}" in text for text in texts):
                if any(word.startswith(f"{one.name}=") for word in self.command):
                    continue  # Hydra's key=value: replaced as an argument is
                raise UsageError(
                    f"--param {one.name} is used nowhere: write {{{one.name}}} where its value belongs in the command, "
                    f"or --param --{one.name}=... for an argument of that name."
                )
            if one.kind == "file":
                self._named_file(one)
                path, key = _file_and_key(one)
                changed(self.working_directory / path, key, one.values[0])
            if one.kind == "argument" and not one.target.startswith("-"):
                if not any(word.startswith(f"{one.target}=") for word in self.command):
                    raise UsageError(
                        f"--param {one.target} is used nowhere: the command has no {one.target}=..."
                    )
            own = self._own(one)
            if own is not None and own != str(one.values[0]):
                notes.append(
                    f"The command says {one.target} {own}; the first trial has {one.values[0]}, the first value that "
                    "was given."
                )
        return tuple(notes)

    def made(self, setting: Mapping[str, Value], folder: Path) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command with this setting, and the environment that it is given besides; changed files are written to
        `folder`. Raises OomphError where they cannot be."""
        words = list(self.command)
        environment = dict(self.environment)
        files: dict[str, tuple[Path, str]] = {}
        for one in self.variables:
            value = setting[one.name]
            if one.kind == "placeholder":
                mark = f"{{{one.name}}}"
                if any(mark in text for text in (*words, *environment.values())):
                    words = [word.replace(mark, str(value)) for word in words]
                    environment = {name: text.replace(mark, str(value)) for name, text in environment.items()}
                else:
                    words = _with_argument(words, one.name, str(value))
            elif one.kind == "argument":
                words = _with_argument(words, one.target, str(value))
            elif one.kind == "environment":
                environment[one.target] = str(value)
            else:
                self._change_file(one, value, folder, files)
        for name, (path, _) in files.items():
            words = [_with_file(word, name, str(path)) for word in words]
        own = f"{{{TRIAL}}}"
        return (
            tuple(word.replace(own, str(folder)) for word in words),
            {name: text.replace(own, str(folder)) for name, text in environment.items()},
        )

    def _own(self, one: Variable) -> str | None:
        """The value that the command itself gives an argument."""
        if one.kind != "argument":
            return None
        place = _find(list(self.command), one.target)
        if place is None:
            return None
        word = self.command[place]
        if "=" in word:
            return word.partition("=")[2]
        return self.command[place + 1] if place + 1 < len(self.command) else None

    def _named_file(self, one: Variable) -> None:
        path, _ = _file_and_key(one)
        if not any(_with_file(word, path, "\0") != word for word in self.command):
            raise UsageError(
                f"--param {one.target}: the command does not name {path}, so that its copy is not used."
            )

    def _change_file(
        self, one: Variable, value: Value, folder: Path, files: dict[str, tuple[Path, str]]
    ) -> None:
        """Two variables of one file share a copy."""
        name, key = _file_and_key(one)
        source = files[name][0] if name in files else self.working_directory / name
        text = changed(source, key, value)
        path = folder / "config" / Path(name).name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except OSError as error:
            raise OomphError(f"{path}: cannot be written: {error.strerror or error}.") from error
        files[name] = (path, text)


def unset(variables: Sequence[Variable], setting: Mapping[str, Value]) -> tuple[str, ...]:
    """Environment variables that this setting wants not to be set at all: their value is empty."""
    return tuple(one.target for one in variables if one.kind == "environment" and setting[one.name] == _UNSET)


def _file_and_key(one: Variable) -> tuple[str, str]:
    path, _, key = one.target.rpartition(":")
    return path, key


def _with_file(word: str, name: str, path: str) -> str:
    """A word of the command with another file in the place of `name`: alone, or behind "=" or "@"."""
    if word == name:
        return path
    for before in ("=", "@"):
        head, found, tail = word.rpartition(before)
        if found and tail == name:
            return f"{head}{before}{path}"
    return word


def _same(word: str, flag: str) -> bool:
    """Whether two spellings are one option: argparse, click and transformers take - for _."""
    return word == flag or (word.startswith("--") and word.replace("_", "-") == flag.replace("_", "-"))


def _find(words: list[str], flag: str) -> int | None:
    """Where the command has the argument: the last time, which is the one that counts."""
    for place in range(len(words) - 1, -1, -1):
        if _same(words[place].partition("=")[0], flag) and (flag.startswith("-") or "=" in words[place]):
            return place
    return None


def _with_argument(words: list[str], flag: str, value: str) -> list[str]:
    """`--flag value` or `--flag=value` with another value; where it is not there, at the end."""
    place = _find(words, flag)
    if place is None:
        return [*words, flag, value] if flag.startswith("-") else [*words, f"{flag}={value}"]
    head, equals, _ = words[place].partition("=")
    if equals:
        return [*words[:place], f"{head}={value}", *words[place + 1 :]]
    return [*words[: place + 1], value, *words[place + 2 :]]
