"""Expressions of a program, evaluated for one job."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.predict.engine.expression import evaluate


class Values(dict[str, int]):
    """Expressions evaluated when they are first asked for."""

    def __init__(self, dimensions: Mapping[str, int]) -> None:
        super().__init__()
        self._dimensions = dimensions

    def __missing__(self, text: str) -> int:
        value = evaluate(text, self._dimensions)
        self[text] = value
        return value
