"""Checked values out of unpickled dicts. Every function raises `MalformedError` for a value of the wrong type."""

from __future__ import annotations

from collections.abc import Mapping

#: Addresses, and where memory ends, fit into a signed machine word.
MOST = (1 << 63) - 1
#: Sizes, one by one and added up over a trace: a 2 EiB that no job reaches, so that sums of them stay far from `MOST`.
MOST_BYTES = 1 << 61


class MalformedError(Exception):
    """A value has the wrong type or size; the text says which. `read` makes an InputError of it."""


def as_dict(value: object, what: str) -> dict[str, object]:
    """A dict; its keys are looked up, never trusted to be text."""
    if type(value) is not dict:
        raise MalformedError(f"{what} is not a dict")
    return value


def as_list(value: object, what: str) -> list[object]:
    """A list, of whatever."""
    if type(value) is not list:
        raise MalformedError(f"{what} is not a list")
    return value


def as_text(value: object, what: str) -> str:
    """A str."""
    if type(value) is not str:
        raise MalformedError(f"{what} is not text")
    return value


def as_flag(value: object, what: str) -> bool:
    """A bool."""
    if type(value) is not bool:
        raise MalformedError(f"{what} is not true or false")
    return value


def as_int(value: object, what: str, least: int = 0) -> int:
    """An int (no bool) from `least` to 2**63 - 1."""
    if type(value) is not int or not least <= value <= MOST:
        raise MalformedError(f"{what} is not a number within reason")
    return value


def size_of(record: Mapping[str, object], key: str, what: str) -> int:
    """The bytes, or the address, that `record` has under `key`."""
    return as_int(record.get(key), f"{key} of {what}")


def pool_of(record: Mapping[str, object], key: str, what: str) -> tuple[int, int]:
    """A pool id: two numbers, as a tuple or (from PyTorch's C++ writer) a list; (0, 0) when absent."""
    value = record.get(key, (0, 0))
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise MalformedError(f"{key} of {what} is not a pair")
    return as_int(value[0], f"{key} of {what}"), as_int(value[1], f"{key} of {what}")
