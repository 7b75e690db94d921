"""Reads expressions: `2*b*s*hidden + 4*b*s`, `1/2*b*(s - 1)`, `4*b*up(s, 32)`. Nothing is ever executed.

sum     = ["-"] product { ("+" | "-") product }
product = factor { "*" factor | "/" whole number }
factor  = whole number | name | name "(" [ argument { "," argument } ] ")" | "(" sum ")"
argument = sum | "[" sum { "," sum } "]"
"""

from __future__ import annotations

import re
from functools import lru_cache

from oomph.memory.recipe.expression import Argument, Expression, RecipeError, call, name, number

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*/(),\[\]]))", re.ASCII)
_MOST_CHARACTERS = 2000
_MOST_DIGITS = 20
_DEEPEST = 20


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The expression that `text` stands for. Raises RecipeError, with the place, for anything else."""
    if len(text) > _MOST_CHARACTERS:
        raise RecipeError(f"an expression of more than {_MOST_CHARACTERS} characters")
    reader = _Reader(text)
    result = reader.sum()
    if reader.here:
        raise reader.error("nothing more was expected")
    return result


class _Reader:
    """One text, read from left to right. `here` is the next token, empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        self.depth = 0
        self.here = ""
        self.step()

    def step(self) -> str:
        """Moves on by one token; the one that was there."""
        before = self.here
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            if self.text[self.end :].strip():
                raise self.error("this is no part of an expression")
            self.here, self.end = "", len(self.text)
        else:
            self.here, self.end = match.group().strip(), match.end()
        return before

    def error(self, why: str) -> RecipeError:
        place = max(self.end - len(self.here), 0)
        return RecipeError(f"the expression {self.text!r} cannot be read at character {place + 1}: {why}")

    def expect(self, token: str) -> None:
        if self.here != token:
            raise self.error(f"{token!r} was expected")
        self.step()

    def sum(self) -> Expression:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error("too many brackets inside each other")
        negative = self.here == "-" and bool(self.step())
        result = self.product() * number(-1 if negative else 1)
        while self.here in ("+", "-"):
            sign = number(1 if self.step() == "+" else -1)
            result = result + self.product() * sign
        self.depth -= 1
        return result

    def product(self) -> Expression:
        result = self.factor()
        while self.here in ("*", "/"):
            if self.step() == "*":
                result = result * self.factor()
            elif self.here.isdigit():
                result = result.over(self.whole())
            else:
                raise self.error("only a whole number divides")
        return result

    def whole(self) -> int:
        if len(self.here) > _MOST_DIGITS:
            raise self.error(f"a number of more than {_MOST_DIGITS} digits")
        return int(self.step())

    def factor(self) -> Expression:
        if self.here.isdigit():
            return number(self.whole())
        if self.here == "(":
            self.step()
            result = self.sum()
            self.expect(")")
            return result
        if self.here and (self.here[0].isalpha() or self.here[0] == "_"):
            word = self.step()
            return self.call(word) if self.here == "(" else name(word)
        raise self.error("a number, a name or '(' was expected")

    def call(self, function: str) -> Expression:
        self.expect("(")
        arguments: list[Argument] = []
        while self.here != ")":
            if arguments:
                self.expect(",")
            arguments.append(self.argument())
        self.expect(")")
        return call(function, *arguments)

    def argument(self) -> Argument:
        if self.here != "[":
            return self.sum()
        self.step()
        parts = [self.sum()]
        while self.here == ",":
            self.step()
            parts.append(self.sum())
        self.expect("]")
        return tuple(parts)
