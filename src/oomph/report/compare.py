"""Two answers side by side: what differs between two failed runs of one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from oomph.report.clean import clean, cut, flat, without_commands
from oomph.report.layout import Style, cells, pad, wrap
from oomph.report.options import ReportOptions
from oomph.report.redact import Redactor

#: Characters of a cell.
_CELL = 400
_COLUMNS = 3


@dataclass(frozen=True)
class Row:
    """One thing in both runs. "" is shown as "unknown"; rows of one `section` stand together under its name."""

    what: str
    a: str
    b: str
    section: str = ""

    @property
    def mark(self) -> str:
        """The sign before the row: "*" for a difference, "?" where only one side is known, " " for what is the same."""
        a, b = flat(self.a), flat(self.b)
        if a == b:
            return " "
        return "*" if a and b else "?"


class RowLike(Protocol):
    """What `render_rows` needs of a row."""

    @property
    def section(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def a(self) -> str: ...

    @property
    def b(self) -> str: ...


class Comparison(Protocol):
    """What `render_compare` needs of a comparison."""

    @property
    def title_a(self) -> str: ...

    @property
    def title_b(self) -> str: ...

    @property
    def rows(self) -> Sequence[RowLike]: ...


def render_compare(comparison: Comparison, options: ReportOptions | None = None) -> str:
    """A comparison as text, ending in a newline."""
    return render_rows(comparison.title_a, comparison.title_b, comparison.rows, options)


def render_rows(
    title_a: str,
    title_b: str,
    rows: Sequence[RowLike],
    options: ReportOptions | None = None,
    answers: Sequence[str] = (),
) -> str:
    """The rows as a table of three columns; what differs is marked with "*",
    what only one side shows with "?".

    `answers` are sentences below the table. Sections keep the order of their first row. Long cells are wrapped inside
    their column.
    """
    options = options or ReportOptions()
    title_a, title_b, shown, answers = _prepared(title_a, title_b, rows, options, answers)
    style = Style(options.colour)
    widths = _widths(shown, options.columns)
    lines = _lines(("", title_a, title_b), " ", widths, style, "heading")
    for section in dict.fromkeys(row.section for row in shown):
        lines.append("")
        if section:
            lines.append(style(section, "heading"))
        for row in shown:
            if row.section == section:
                cells_of_row = (row.what, row.a or "unknown", row.b or "unknown")
                lines += _lines(cells_of_row, row.mark, widths, style, "bold" if row.mark == "*" else "")
    lines += ["", *wrap(_total(shown), options.columns)]
    for answer in answers:
        lines += ["", *wrap(answer, options.columns)]
    return without_commands("\n".join(line.rstrip() for line in lines)) + "\n"


def _total(rows: Sequence[Row]) -> str:
    marks = [row.mark for row in rows]
    total = len(rows)
    told = f"{marks.count('*')} of {total} differ (*)" if "*" in marks else "Nothing that both show differs"
    return told + (f"; {marks.count('?')} of {total} known of one side only (?)." if "?" in marks else ".")


def _prepared(
    title_a: str, title_b: str, rows: Sequence[RowLike], options: ReportOptions, answers: Sequence[str]
) -> tuple[str, str, list[Row], list[str]]:
    redactor = Redactor() if options.redact else None
    if redactor is not None:
        redactor.learn_inputs((clean(title_a), clean(title_b)))
        for text in (
            title_a,
            title_b,
            *answers,
            *(text for row in rows for text in (row.what, row.a, row.b)),
        ):
            redactor.learn(clean(text))

    def shown(text: str, *, path: bool = False) -> str:
        text = flat(clean(text))
        if redactor is not None:
            text = redactor.path(text) if path else redactor(text)
        return cut(text if options.unicode else text.replace("\u2264", "<="), _CELL)

    prepared = [Row(shown(row.what), shown(row.a), shown(row.b), shown(row.section)) for row in rows]
    told = [shown(answer) for answer in answers]
    return shown(title_a, path=True), shown(title_b, path=True), prepared, told


def _widths(rows: Sequence[Row], width: int) -> tuple[int, int, int]:
    """Columns for what (as wide as its longest, a third at most), a and b (the rest in two halves)."""
    room = width - 2 - 2 * (_COLUMNS - 1)
    first = min(max((cells(row.what) for row in rows), default=8), room // _COLUMNS)
    half = (room - first) // 2
    return first, half, half


def _lines(texts: Sequence[str], mark: str, widths: Sequence[int], style: Style, name: str) -> list[str]:
    columns = [wrap(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for number in range(max(len(column) for column in columns) or 1):
        parts = [
            pad(column[number] if number < len(column) else "", width)
            for column, width in zip(columns, widths, strict=True)
        ]
        lines.append(f"{mark if number == 0 else ' '} " + style("  ".join(parts).rstrip(), name))
    return lines
