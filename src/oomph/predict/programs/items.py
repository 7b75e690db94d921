"""Items of a section, which files of programs keep as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def whole_item(data: Mapping[str, Any], item: Any) -> list[Any]:
    """An item without the file's tables."""
    if isinstance(item, int):
        return ["drop", item]
    call, used, results = item
    holes = iter(used)
    name, *arguments = (_filled(part, holes) for part in data["calls"][call])
    return ["op", name, arguments[0], results, *arguments[1:]]


def _filled(value: Any, holes: Iterator[int]) -> Any:
    if isinstance(value, list):
        return [_filled(each, holes) for each in value]
    if isinstance(value, dict):
        if "t" in value:
            return {"t": next(holes)}
        return {name: _filled(each, holes) for name, each in value.items()}
    return value
