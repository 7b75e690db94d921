"""The quotes that a report's statements rest on, numbered in the order in which the report mentions them."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.evidence.model import Quote


class Citations:
    """Gives each quote one number. With `shown` False, marks are empty (the report prints no list of quotes)."""

    def __init__(self, *, shown: bool = True) -> None:
        self.shown = shown
        self._numbers: dict[Quote, int] = {}

    def mark(self, quotes: Iterable[Quote | None]) -> str:
        """The numbers of one statement's quotes, as " [1, 3]"; "" for none."""
        numbers = [
            self._numbers.setdefault(quote, len(self._numbers) + 1) for quote in quotes if quote is not None
        ]
        if not numbers or not self.shown:
            return ""
        return f" [{', '.join(str(number) for number in dict.fromkeys(numbers))}]"

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """All quotes that were marked, in the order of their numbers."""
        return tuple(self._numbers)
