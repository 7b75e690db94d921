"""Reads the flags of a launcher up to the script, as argparse does with a positional and a REMAINDER after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.errors import UsageError


def words(text: str) -> frozenset[str]:
    """The words of a table, written in rows."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Table:
    """A launcher's flags. `switches` take no value; `values` maps a spelling to its name, and None means that every
    flag which is no switch takes one value. Names are written with underscores."""

    launcher: str
    switches: frozenset[str]
    values: frozenset[str] | None = None
    short: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """`given` maps names to values (a switch's is "true"), `arguments` are the words that the launcher took, and
    `rest` is the script and its arguments."""

    given: dict[str, str]
    arguments: tuple[str, ...]
    rest: list[str]


def read(table: Table, line: list[str]) -> Read:
    """What the launcher takes of `line`. Raises UsageError for a flag that the launcher does not know, one that
    lacks its value, and where no script follows."""
    given: dict[str, str] = {}
    position = 0
    while position < len(line):
        word = line[position]
        if word == "--":
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        position += 1
        spelled, equals, value = word.partition("=")
        name, joined = _name(table, spelled)
        if joined:
            equals, value = "=", joined
        if name in table.switches:
            given[name] = "true"
            continue
        if not equals:
            if position >= len(line):
                raise UsageError(f"{table.launcher}: {word} lacks its value.")
            value = line[position]
            position += 1
        given[name] = value
    rest = list(line[position:])
    if not rest:
        raise UsageError(f"{table.launcher} is given no script: write it after its flags.")
    return Read(given, tuple(line[:position]), rest)


def _name(table: Table, spelled: str) -> tuple[str, str]:
    """A flag's name, and the value that was glued to a short one (`-r3`)."""
    if not spelled.startswith("--"):
        name = table.short.get(spelled[1:2])
        if name is None:
            raise UsageError(f"{table.launcher} has no flag {spelled}.")
        return name, spelled[2:]
    name = spelled[2:].replace("-", "_")
    known = table.switches | (table.values or frozenset())
    if name in known:
        return name, ""
    if table.values is None:
        return name, ""
    starts = [each for each in known if each.startswith(name)]
    if len(starts) == 1:  # argparse takes abbreviations
        return starts[0], ""
    if starts:
        raise UsageError(f"{table.launcher}: {spelled} may mean {', '.join(sorted(starts))}.")
    raise UsageError(f"{table.launcher} has no flag {spelled}.")


def whole(table: Table, name: str, value: str) -> int:
    """A number of at least one. Raises UsageError."""
    if value.isdecimal() and int(value) >= 1:
        return int(value)
    raise UsageError(f"{table.launcher}: {name} is a number of at least 1, not {value!r}.")
