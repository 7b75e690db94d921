"""An object that takes everything and does nothing, in place of a tracker's; and how tables of names are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def words(text: str) -> tuple[str, ...]:
    """The names of a table, written in rows."""
    return tuple(text.split())


class Inert:
    """Every attribute is callable and gives another one; it is true, empty, and a context manager. `attributes` are
    those that have a value."""

    def __init__(self, *_: Any, **attributes: Any) -> None:
        self.__dict__.update({name: value for name, value in attributes.items() if name.isidentifier()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Inert()

    def __call__(self, *args: Any, **__: Any) -> Any:
        # Used as a decorator, the function stays what it is.
        if len(args) == 1 and callable(args[0]) and not isinstance(args[0], Inert | type):
            return args[0]
        return Inert()

    def __enter__(self) -> Inert:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, _: Any) -> Any:
        return Inert()

    def __setitem__(self, _: Any, __: Any) -> None:
        return None

    def __contains__(self, _: Any) -> bool:
        return False

    def __str__(self) -> str:
        return ""
