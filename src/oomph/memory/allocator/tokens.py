"""The text of `PYTORCH_ALLOC_CONF`, cut and read as PyTorch does, with its errors.

Source: ConfigTokenizer of c10/core/AllocatorConfig.h (2.10 on) and lexArgs, consumeToken of
c10/cuda/CUDAAllocatorConfig.cpp (before). Both messages were compared with PyTorch 2.13.
"""

from __future__ import annotations

import re

from oomph.memory.allocator.errors import SettingsError

_PIECE = re.compile(r"[,:\[\]]|[^,:\[\]]+")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I
)
_WORD = 1 << 64
_INT = 1 << 31


class Tokens:
    """Keys, values and the signs `, : [ ]`; blanks are dropped.

    From 2.10 on PyTorch does not mind which sign stands where one is expected, only that something does; before, it
    refused any other (`strict`).
    """

    def __init__(self, text: str, strict: bool) -> None:
        blanks = r" +" if strict else r"\s+"
        self.items: list[str] = _PIECE.findall(re.sub(blanks, "", text))
        self.strict = strict

    def __len__(self) -> int:
        return len(self.items)

    def at(self, place: int) -> str:
        """The token there. Raises SettingsError behind the end."""
        if place >= len(self.items):
            raise SettingsError("Index out of bounds in ConfigTokenizer: a value is missing, or its colon.")
        return self.items[place]

    def sign(self, place: int, sign: str) -> None:
        """A sign is expected there."""
        if self.strict and (place >= len(self.items) or self.items[place] != sign):
            raise SettingsError(f"Error parsing CachingAllocator settings, expected {sign}")
        self.at(place)

    def value(self, place: int, key: str) -> str:
        """The value of `key`."""
        if self.strict and place >= len(self.items):
            raise SettingsError(f"Error, expecting {key} value")
        return self.at(place)

    def whole(self, place: int, key: str) -> int:
        """A whole number, read up to the first character that is none; a negative one wraps around, as in C++."""
        text = self.value(place, key)
        match = _WHOLE.match(text)
        name = "stoi" if self.strict else "stoull"
        if match is None:
            raise SettingsError(f"{name}: the value of {key} is not a whole number: {text!r}.")
        number = int(match[0])
        if not (-_INT <= number < _INT if self.strict else -_WORD < number < _WORD):
            raise SettingsError(f"{name}: the value of {key} is too large: {text!r}.")
        return number % _WORD

    def real(self, place: int, key: str) -> float:
        """A number, read up to the first character that does not belong to it."""
        text = self.value(place, key)
        match = _REAL.match(text)
        if match is None:
            raise SettingsError(f"stod: the value of {key} is not a number: {text!r}.")
        return float(match[0])

    def truth(self, place: int, key: str) -> bool:
        """True or False, so written."""
        if self.strict:
            if place >= len(self.items) or self.items[place] not in ("True", "False"):
                raise SettingsError(f"Expected a single True/False argument for {key}")
        elif self.at(place) not in ("True", "False"):
            raise SettingsError(
                f"Expected 'True' or 'False' at index {place} in ConfigTokenizer but got '{self.at(place)}'"
            )
        return self.items[place] == "True"

    def skip(self, place: int) -> int:
        """From a key to the end of its value, which may be a list."""
        self.at(place + 1)
        place += 2
        if self.at(place) != "[":
            return place
        while place < len(self.items) and self.items[place] != "]":
            place += 1
        if place >= len(self.items):
            raise SettingsError("Expected closing bracket ']' in ConfigTokenizer but reached end of config")
        return place
