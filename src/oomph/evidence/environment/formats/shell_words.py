"""Shell text as simple commands, each a list of words; what only a run could tell is None.

This is no shell: expansions of variables that the script itself defines are made, command substitutions and everything
else that depends on the machine are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=+?])?(.*)", re.DOTALL)
_SPECIAL = "0123456789@*#?$!-"
#: A longer command line is not looked at.
_LONGEST = 60_000


@dataclass(frozen=True)
class Word:
    """One word: `text` as it is written, `value` with quotes and expansions done, None where it cannot be known."""

    text: str
    value: str | None


class _Words:
    """One pass over a command line."""

    def __init__(self, text: str, variables: Mapping[str, str | None], depth: int = 0) -> None:
        self.text = text[:_LONGEST]
        self.variables = variables
        self.depth = depth
        self.at = 0
        self.commands: list[list[Word]] = [[]]
        self.parts: list[str | None] = []
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
        value = None if None in self.parts else "".join(part for part in self.parts if part is not None)
        self.commands[-1].append(Word(self.text[self.begin : self.at], value))
        self.begin, self.parts = None, []

    def _piece(self, sign: str) -> None:
        text = self.text
        if sign == "\\":
            self.parts.append(text[self.at + 1 : self.at + 2])
            self.at += 2
        elif sign == "'":
            end = text.find("'", self.at + 1)
            end = len(text) if end < 0 else end
            self.parts.append(text[self.at + 1 : end])
            self.at = end + 1
        elif sign == '"':
            self._double()
        elif sign == "$":
            self._dollar()
        elif sign == "`":
            end = text.find("`", self.at + 1)
            self.at = len(text) if end < 0 else end + 1
            self.parts.append(None)
        else:
            self.parts.append(sign)
            self.at += 1

    def _double(self) -> None:
        self.at += 1
        text = self.text
        self.parts.append("")
        while self.at < len(text) and text[self.at] != '"':
            sign = text[self.at]
            if sign == "\\" and text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                self.parts.append(text[self.at + 1])
                self.at += 2
            elif sign in "$`":
                self._piece(sign)
            else:
                self.parts.append(sign)
                self.at += 1
        self.at += 1

    def _dollar(self) -> None:
        text = self.text
        following = text[self.at + 1 : self.at + 2]
        if following == "(":
            self.at = _closing(text, self.at + 1, "(", ")")
            self.parts.append(None)
        elif following == "{":
            end = _closing(text, self.at + 1, "{", "}")
            self.parts.append(self._braced(text[self.at + 2 : end - 1]))
            self.at = end
        elif following and following in _SPECIAL:
            self.at += 2
            self.parts.append(None)
        else:
            name = _NAME.match(text, self.at + 1)
            if name is None:
                self.parts.append("$")
                self.at += 1
                return
            self.at = name.end()
            self.parts.append(self.variables.get(name[0]))

    def _braced(self, inside: str) -> str | None:
        match = _BRACED.fullmatch(inside)
        if match is None:
            return None
        name, operator, rest = match[1], match[2] or "", match[3]
        known = name in self.variables
        value = self.variables.get(name)
        if not operator:
            return value if not rest else None
        if operator in (":-", "-", ":=", "=") and self.depth < 8:
            # A variable that the script does not set may come from outside: then the default does not hold. It is
            # what the script's author expects, and the best that can be said.
            if known and value != "":
                return value
            return expand(rest, self.variables, self.depth + 1)
        return value if known and operator in (":?", "?") else None


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


def expand(text: str, variables: Mapping[str, str | None], depth: int = 0) -> str | None:
    """`text` as one double-quoted word."""
    words = _Words('"' + text.replace('"', "") + '"', variables, depth).run()
    return words[0][0].value if words and words[0] else ""
