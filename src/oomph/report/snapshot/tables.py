"""Tables of numbers: columns that hold sizes and counts stand on their right edge."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.report.layout import cells, pad, wrap

#: Columns that the last cell of a row needs at least; narrower tables are no tables any more.
_LEAST_ROOM = 12
_GAP = 2


def aligned(rows: Sequence[Sequence[str]], width: int, right: str, indent: str = "  ") -> list[str]:
    """Rows of cells as aligned columns; the last column is wrapped into what is left of `width`.

    `right` has a letter for each column: "r" for one that stands on its right edge, anything else on its left (letters
    beyond the last column are not used). The first row may be heads.
    """
    return [line for lines in aligned_rows(rows, width, right, indent) for line in lines]


def aligned_rows(
    rows: Sequence[Sequence[str]], width: int, right: str, indent: str = "  "
) -> list[list[str]]:
    """The same, with the lines of each row apart. Where there is no room for columns, a row is running text."""
    if not rows:
        return []
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = min(widths[-1], _LEAST_ROOM)
    if len(indent) + sum(size + _GAP for size in widths[:-1]) + last > width:
        return [wrap(", ".join(filter(None, row)), width, indent, indent + "    ") for row in rows]
    padded = [
        [
            pad(cell, size, right=True) if side == "r" else cell
            for cell, size, side in zip(row, widths, right, strict=False)
        ]
        for row in rows
    ]
    lines = []
    for row in padded:
        lead = indent + "".join(pad(cell, size + _GAP) for cell, size in zip(row[:-1], widths, strict=False))
        lines.append(wrap(row[-1], width, lead) if row[-1].strip() else [lead.rstrip()])
    return lines
