"""$((NNODES * 8)): whole numbers, the four operations and the remainder; anything else is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*(?:(\d{1,15})|\$?\{?([A-Za-z_]\w{0,80})\}?|([-+*/%()]))")
#: Longer expressions are not what a launcher's script counts with.
_MOST_TOKENS = 60
_LARGEST = 10**15


def value(text: str, variables: Mapping[str, str | None]) -> int | None:
    """What the expression between the brackets is; None where a piece of it is not known."""
    tokens: list[int | str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(tokens) >= _MOST_TOKENS:
            return None
        at = match.end()
        if match[1]:
            tokens.append(int(match[1]))
        elif match[2]:
            held = variables.get(match[2])
            if held is None or not (held.isascii() and held.isdigit() and len(held) < 16):
                return None
            tokens.append(int(held))
        else:
            tokens.append(match[3])
    result = _Sum(tokens)
    number = result.sum()
    return number if result.at == len(tokens) and number is not None and abs(number) < _LARGEST else None


class _Sum:
    """A descent over the tokens."""

    def __init__(self, tokens: list[int | str]) -> None:
        self.tokens = tokens
        self.at = 0

    def _next(self, *signs: str) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if isinstance(token, str) and token in signs:
            self.at += 1
            return token
        return ""

    def sum(self) -> int | None:
        """Terms with + and -."""
        left = self._product()
        while sign := self._next("+", "-"):
            right = self._product()
            if left is None or right is None:
                return None
            left = left + right if sign == "+" else left - right
        return left

    def _product(self) -> int | None:
        left = self._atom()
        while sign := self._next("*", "/", "%"):
            right = self._atom()
            if left is None or right is None or (sign != "*" and right == 0) or abs(left) > _LARGEST:
                return None
            # The shell's division drops the fraction towards zero.
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0
            left = left * right if sign == "*" else quotient if sign == "/" else left - quotient * right
        return left

    def _atom(self) -> int | None:
        if self._next("-"):
            inner = self._atom()
            return None if inner is None else -inner
        if self._next("("):
            inner = self.sum()
            return inner if self._next(")") else None
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if isinstance(token, int):
            self.at += 1
            return token
        return None
