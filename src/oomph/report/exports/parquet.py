"""Events as Parquet, through pyarrow (the extra `parquet`): integers as they are, text as dictionaries."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oomph.errors import UsageError
from oomph.report.exports.columns import Column, columns
from oomph.report.exports.target import replacing
from oomph.report.exports.window import chosen

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Rows of one row group: what a reader that wants a part of the file reads at least.
_GROUP = 1 << 18


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises UsageError where they are not installed or cannot be loaded."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed: pip install 'oomph[parquet]', or export to .csv"
        ) from None


def write_parquet(
    target: Path,
    analysis: Analysis,
    *,
    first: int | None = None,
    last: int | None = None,
    redact: bool = False,
) -> None:
    """Writes the events from `first` up to, not including, `last`; without both all. See `exports.export`."""
    arrow, parquet = pyarrow()
    begin, end = chosen(analysis, first, last)
    table = columns(analysis, begin, end, redact=redact)
    arrays = {column.name: _array(arrow, column) for column in table}
    with replacing(target) as stream:
        parquet.write_table(arrow.table(arrays), stream, row_group_size=_GROUP, compression="zstd")


def _array(arrow: Any, column: Column) -> Any:
    values = column.values
    absent = values < 0 if column.optional else None
    if absent is not None and not bool(np.any(absent)):
        absent = None
    if column.words is None:
        return arrow.array(values, mask=absent)
    indices = arrow.array(values.astype(np.int32), mask=absent)
    return arrow.DictionaryArray.from_arrays(indices, arrow.array(column.words, arrow.string()))
