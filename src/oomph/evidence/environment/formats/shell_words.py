"""Shell text as simple commands, each a list of words; what only a run could tell is unknown.

This is no shell: expansions of variables that the script itself defines are made, command substitutions and everything
else that depends on the machine are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oomph.evidence.environment.formats import arithmetic

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=+?])?(.*)", re.DOTALL)
_SPECIAL = "0123456789@*#?$!-"
#: A longer command line is not looked at.
_LONGEST = 60_000
#: And no more is put in for the variables of one.
_MOST_EXPANDED = 200_000
#: A value that is longer is none that a launcher takes.
LONGEST_VALUE = 20_000
#: What stands in a value for a piece that is not known. No text holds it: NULs are dropped when a file is decoded.
UNKNOWN = "\x00"


@dataclass(frozen=True)
class Word:
    """One word: `text` as it is written, `partial` with quotes and expansions done and `UNKNOWN` for what cannot be
    known."""

    text: str
    partial: str

    @property
    def value(self) -> str | None:
        """The word; None where a piece of it is not known."""
        return known(self.partial)


def known(partial: str | None) -> str | None:
    """A value; None where a piece of it is not known."""
    return None if partial is None or UNKNOWN in partial else partial


class _Words:
    """One pass over a command line."""

    def __init__(self, text: str, variables: Mapping[str, str | None], depth: int = 0) -> None:
        self.text = text[:_LONGEST]
        self.variables = variables
        self.depth = depth
        self.at = 0
        self.commands: list[list[Word]] = [[]]
        self.parts: list[str] = []
        self.shown: str | None = None
        self.size = 0
        self.begin: int | None = None

    def run(self) -> list[list[Word]]:
        text = self.text
        while self.at < len(text):
            sign = text[self.at]
            if sign in " \t":
                self._end()
                self.at += 1
            elif sign == "#" and self.begin is None:
                break
            elif sign in ";|&()\n":
                self._separator(sign)
            elif sign in "<>":
                self._redirection()
            else:
                if self.begin is None:
                    self.begin = self.at
                self._piece(sign)
        self._end()
        return [command for command in self.commands if command]

    def _add(self, piece: str) -> None:
        """A piece of the word; where a script makes values without end, the rest is not known."""
        self.size += len(piece)
        self.parts.append(piece if self.size <= _MOST_EXPANDED else UNKNOWN)

    def _separator(self, sign: str) -> None:
        # ">&2" and "&>" are redirections; a number before them belongs to them.
        if sign == "&" and self.text[self.at + 1 : self.at + 2] == ">":
            self.at += 1
            self._redirection()
            return
        self._end()
        self.at += 1
        if self.commands[-1]:
            self.commands.append([])

    def _redirection(self) -> None:
        if self.begin is not None and self.text[self.begin : self.at].isdigit():
            self.begin, self.parts = None, []
        self._end()
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        while self.at < len(self.text) and self.text[self.at] not in " \t;|&()<>\n":
            self.at += 1

    def _end(self) -> None:
        if self.begin is None:
            return
        text = self.text[self.begin : self.at] if self.shown is None else self.shown
        partial = "".join(self.parts)
        self.commands[-1].append(Word(text, partial if len(partial) <= LONGEST_VALUE else UNKNOWN))
        self.begin, self.parts, self.shown = None, [], None

    def _piece(self, sign: str) -> None:
        text = self.text
        if sign == "\\":
            self._add(text[self.at + 1 : self.at + 2])
            self.at += 2
        elif sign == "'":
            end = text.find("'", self.at + 1)
            end = len(text) if end < 0 else end
            self._add(text[self.at + 1 : end])
            self.at = end + 1
        elif sign == '"':
            self._double()
        elif sign == "$":
            before = len(self.parts)
            self._dollar()
            self._split(before)
        elif sign == "`":
            end = text.find("`", self.at + 1)
            self.at = len(text) if end < 0 else end + 1
            self._add(UNKNOWN)
        else:
            self._add(sign)
            self.at += 1

    def _split(self, before: int) -> None:
        """An expansion outside quotes that holds blanks is several words."""
        expanded = "".join(self.parts[before:])
        pieces = expanded.split()
        if len(pieces) < 2 or len(self.commands[-1]) > 2_000:
            return
        head = "".join(self.parts[:before])
        for index, piece in enumerate(pieces[:500]):
            whole = head + piece if index == 0 else piece
            if index == len(pieces[:500]) - 1:
                self.parts, self.shown = [whole], whole
            else:
                self.commands[-1].append(Word(whole, whole))

    def _double(self) -> None:
        self.at += 1
        text = self.text
        self._add("")
        while self.at < len(text) and text[self.at] != '"':
            sign = text[self.at]
            if sign == "\\" and text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                self._add(text[self.at + 1])
                self.at += 2
            elif sign == "$":
                self._dollar()
            elif sign == "`":
                self._piece(sign)
            else:
                self._add(sign)
                self.at += 1
        self.at += 1

    def _dollar(self) -> None:
        text = self.text
        following = text[self.at + 1 : self.at + 2]
        if following == "(":
            begin, self.at = self.at, _closing(text, self.at + 1, "(", ")")
            inside = text[begin + 1 : self.at]
            number = None
            if inside.startswith("((") and inside.endswith("))"):
                number = arithmetic.value(inside[2:-2], self.variables)
            self._add(UNKNOWN if number is None else str(number))
        elif following == "{":
            end = _closing(text, self.at + 1, "{", "}")
            value = self._braced(text[self.at + 2 : end - 1])
            self._add(UNKNOWN if value is None else value)
            self.at = end
        elif following and following in _SPECIAL:
            self.at += 2
            self._add(UNKNOWN)
        else:
            name = _NAME.match(text, self.at + 1)
            if name is None:
                self._add("$")
                self.at += 1
                return
            self.at = name.end()
            value = self.variables.get(name[0])
            self._add(UNKNOWN if value is None else value)

    def _braced(self, inside: str) -> str | None:
        match = _BRACED.fullmatch(inside)
        if match is None:
            return None
        name, operator, rest = match[1], match[2] or "", match[3]
        defined = name in self.variables
        value = self.variables.get(name)
        if not operator:
            return value if not rest else None
        if operator in (":-", "-", ":=", "=") and self.depth < 8:
            # A variable that the script does not set may come from outside: then the default does not hold. It is
            # what the script's author expects, and the best that can be said.
            if defined and value != "":
                return value
            return expanded(rest, self.variables, self.depth + 1)
        return value if defined and operator in (":?", "?") else None


def _closing(text: str, at: int, opening: str, closing: str) -> int:
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(text)):
        if text[index] == opening:
            depth += 1
        elif text[index] == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def commands(text: str, variables: Mapping[str, str | None]) -> list[list[Word]]:
    """The simple commands of a logical line, in order."""
    return _Words(text, variables).run()


def expanded(text: str, variables: Mapping[str, str | None], depth: int = 0) -> str:
    """`text` as one double-quoted word, with `UNKNOWN` for what is not known."""
    words = _Words('"' + text.replace('"', "") + '"', variables, depth).run()
    return words[0][0].partial if words and words[0] else ""


def expand(text: str, variables: Mapping[str, str | None]) -> str | None:
    """`text` as one double-quoted word; None where a piece of it is not known."""
    return known(expanded(text, variables))
