"""The ledger as one bar with a legend: who has the device's memory, and how the request compares with what is free."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.ledger import SIMULATED, Ledger
from oomph.report.layout import Style, cells, pad, wrap
from oomph.report.options import ReportOptions
from oomph.report.parts import Part, is_rounding, printed_only, share, split
from oomph.report.words import asked_bytes, asked_words, size
from oomph.units import format_bytes

#: key -> (character, ASCII character, colour). The characters differ in density, so that the bar reads without colour.
_LOOKS = {
    "other": ("┼", "o", "magenta"),
    "outside": ("░", "%", "cyan"),
    "not_torch": ("░", "%", "magenta"),
    "allocated": ("█", "#", "blue"),
    "pools": ("▓", "@", "blue"),
    "cached": ("▒", "=", "yellow"),
    "reserved": ("▓", "R", "blue"),
    "unknown": ("?", "?", "dim"),
    "free": ("·", ".", "green"),
    "missing": ("×", "x", "bad"),
}

#: A line of the legend: character, name, size, how it is known.
Row = tuple[str, str, str, str]

#: Where fewer columns are left, how a number is known stands on a line of its own.
_HOW_COLUMNS = 24

#: The largest part of the bar's width that missing bytes may take; a longer request is cut and marked with ">".
_MISSING_SHARE = 5


def render_bar(ledger: Ledger, options: ReportOptions, indent: str = "  ") -> list[str]:
    """The bar of `options.columns` columns, the marks of limit and request, and the legend; [] for no numbers."""
    if ledger.problems:
        ledger = printed_only(ledger)
    parts = split(ledger)
    words = asked_words(ledger)
    if not parts:
        return wrap(words, options.columns, indent) if words else []
    style = Style(options.colour)
    lines = _Bar(ledger, parts, options, indent).lines()
    lines += ["", *_legend(ledger, parts, options, style, indent)]
    if words:
        lines += ["", *wrap(words, options.columns, indent)]
    return lines


def contradictions(
    ledger: Ledger, options: ReportOptions, notes: Sequence[str] = (), indent: str = "  "
) -> list[str]:
    """What the printed numbers cannot all be; [] when they agree. What `notes` say already is not said again."""
    if not ledger.problems:
        return []
    new = [problem for problem in ledger.problems if not any(problem.text in note for note in notes)]
    if not new:
        return wrap("These numbers cannot all be true as printed: see the notes.", options.columns, indent)
    lines = wrap("These numbers cannot all be true as printed:", options.columns, indent)
    for problem in new:
        lines += wrap(problem.text, options.columns, f"{indent}- ")
    return lines


class _Bar:
    """The rows of the bar: a limit above it, the cells, and the request below them."""

    def __init__(self, ledger: Ledger, parts: Sequence[Part], options: ReportOptions, indent: str) -> None:
        self.options = options
        self.style = Style(options.colour)
        self.indent = indent
        self.ledger = ledger
        self.parts = parts
        room = options.columns - 2 * len(indent)
        self.total = max(sum(part.size_bytes for part in parts), ledger.capacity_bytes or 0)
        self.missing, self.is_cut = self._missing(room)
        self.sizes = share([part.size_bytes for part in parts], room - self.missing)

    def lines(self) -> list[str]:
        row = "".join(
            self._draw(part.key, count) for part, count in zip(self.parts, self.sizes, strict=True) if count
        )
        row += self._draw("missing", self.missing)
        marks = [self._limit_row(), self.indent + row, self._request_row()]
        return [mark for mark in marks if mark]

    def _draw(self, key: str, count: int) -> str:
        drawn, ascii_drawn, colour = _LOOKS[key]
        return self.style((drawn if self.options.unicode else ascii_drawn) * count, colour)

    def _missing(self, room: int) -> tuple[int, bool]:
        """Cells for the bytes that the request is short by, and whether they are fewer than its true share."""
        short = self.ledger.short_by_bytes
        asked = asked_bytes(self.ledger)
        if short is None and asked is not None and self.ledger.free_bytes is not None:
            short = max(0, asked[0] - self.ledger.free_bytes)
        if not short or not self.total:
            return 0, False
        wanted = max(1, round(room * short / (self.total + short)))
        most = room // _MISSING_SHARE
        return min(wanted, most), wanted > most

    def _request_row(self) -> str:
        """A bracket under the free and the missing cells that the request would take."""
        asked = asked_bytes(self.ledger)
        if asked is None or self.ledger.free_bytes is None:
            return ""
        room = sum(self.sizes)
        free = self.sizes[-1] if self.parts[-1].key == "free" else 0
        if self.missing:
            length = free + self.missing
        else:
            length = max(1, min(free, round(room * asked[0] / self.total))) if self.total else 1
        start = room - free
        label = f"request {format_bytes(asked[0])}"
        mark = self._bracket(length)
        return self._labelled(start, mark, label, mark, "bold")

    def _bracket(self, length: int) -> str:
        left, line, right = ("└", "─", "┘") if self.options.unicode else ("+", "-", "+")
        if self.is_cut:
            right = "→" if self.options.unicode else ">"
        if length == 1:
            return right if self.is_cut else ("│" if self.options.unicode else "^")
        return left + line * (length - 2) + right

    def _limit_row(self) -> str:
        """A mark above the cell up to which PyTorch may reserve."""
        limit = self.ledger.limit_bytes
        if limit is None or not self.total:
            return ""
        start = sum(
            count
            for part, count in zip(self.parts, self.sizes, strict=True)
            if part.key in ("other", "outside", "not_torch")
        )
        room = sum(self.sizes)
        column = min(room - 1, max(0, start + round(room * limit / self.total) - 1))
        label = f"limit {format_bytes(limit)}"
        corner = "┐" if self.options.unicode else "v"
        other = "┌" if self.options.unicode else "v"
        return self._labelled(column, corner, label, other, "yellow")

    def _labelled(self, start: int, mark: str, label: str, mark_before: str, name: str) -> str:
        """A mark at a column with its label on the left, or on the right, or without one where neither has room."""
        if start >= len(label) + 1:
            return self.indent + " " * (start - len(label) - 1) + self.style(f"{label} {mark}", name)
        line = self.indent + " " * start
        if cells(line) + len(mark_before) + 1 + len(label) <= self.options.columns:
            return line + self.style(f"{mark_before} {label}", name)
        return line + self.style(mark, name)


def _legend(
    ledger: Ledger, parts: Sequence[Part], options: ReportOptions, style: Style, indent: str
) -> list[str]:
    rows = [_legend_row(ledger, part, options) for part in parts]
    rows += _unknown_rows(ledger)
    rows += _other_rows(ledger)
    widths = [max(cells(row[column]) for row in rows) for column in range(3)]
    lines: list[str] = []
    for row, part in zip(rows, [*parts, *[None] * (len(rows) - len(parts))], strict=True):
        mark = pad(row[0], 1)
        lead = f"{indent}{mark} {pad(row[1], widths[1])}  {pad(row[2], widths[2], right=True)}  "
        room = options.columns - cells(lead)
        if cells(row[3]) > room and room < _HOW_COLUMNS:
            wrapped = [lead.rstrip(), *wrap(row[3], options.columns, indent + "      ")]
        else:
            wrapped = wrap(row[3], options.columns, lead) or [lead.rstrip()]
        if part is not None:
            colour = _LOOKS[part.key][2]
            wrapped[0] = wrapped[0].replace(f"{indent}{mark}", indent + style(mark, colour), 1)
        lines += wrapped
    return lines


def _legend_row(ledger: Ledger, part: Part, options: ReportOptions) -> Row:
    drawn, ascii_drawn, _ = _LOOKS[part.key]
    mark = (drawn if options.unicode else ascii_drawn) if part.size_bytes else " "
    return mark, part.name, _shown(ledger, part, options), _remarks(known(ledger, part.field), part.remark)


def _shown(ledger: Ledger, part: Part, options: ReportOptions) -> str:
    shown = part.size_bytes if part.shown_bytes is None else part.shown_bytes
    if is_rounding(ledger, part.field):
        return f"{'≤' if options.unicode else '<='} {format_bytes(shown + ledger.slack_bytes.get(part.field, 0))}"
    return format_bytes(shown)


def _remarks(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def known(ledger: Ledger, field: str) -> str:
    """How a number is known: "printed", or the identity that gave it, with its rounding where that matters."""
    origin = ledger.origins.get(field, "").replace("not_torch", "not PyTorch's").replace("_", " ")
    slack = ledger.slack_bytes.get(field, 0)
    value = getattr(ledger, field, None)
    if origin.startswith("=") and value is not None and slack * 100 >= value > slack:
        return f"{origin}, +- {format_bytes(slack)}"
    return origin


def _unknown_rows(ledger: Ledger) -> list[Row]:
    """Parts of the identity about which the input says nothing."""
    rows = []
    if (
        ledger.not_torch_bytes is None
        and ledger.other_processes_bytes is None
        and ledger.outside_bytes is None
    ):
        rows.append((" ", "not PyTorch's", "unknown", ""))
    if ledger.allocated_bytes is None and ledger.reserved_bytes is None:
        rows.append((" ", "allocated, cached", "unknown", ""))
    elif ledger.cached_bytes is None and ledger.reserved_bytes is None:
        rows.append((" ", "cached", "unknown", ""))
    if ledger.free_bytes is None:
        rows.append((" ", "free", "unknown", ""))
    return rows


def _other_rows(ledger: Ledger) -> list[Row]:
    """Numbers that are sums of parts, or bounds: shown because the message prints them."""
    rows = []
    for field, name in (
        ("limit_bytes", "limit"),
        ("process_bytes", "this process"),
        ("capacity_bytes", "capacity"),
    ):
        value = getattr(ledger, field)
        if field == "process_bytes" and ledger.origins.get("capacity_bytes") == SIMULATED:
            continue
        if value is None or (field == "process_bytes" and _is_one_stretch(ledger)):
            continue  # a process that is one stretch has its line already
        remark = {"limit_bytes": "what PyTorch may reserve", "process_bytes": "outside + allocated + cached"}
        if ledger.origins.get(field) == SIMULATED:
            remark["capacity_bytes"] = "what PyTorch can have of the card"
        rows.append((" ", name, size(value), _remarks(known(ledger, field), remark.get(field, ""))))
    if ledger.capacity_bytes is None:
        rows.append((" ", "capacity", "unknown", "the bar shows what is known, not the whole device"))
    return rows


def _is_one_stretch(ledger: Ledger) -> bool:
    return ledger.reserved_bytes is None and ledger.allocated_bytes is None and ledger.cached_bytes is None


def ledger_table(ledger: Ledger, options: ReportOptions) -> list[tuple[str, str, str]]:
    """(name, size, how it is known) for every part of the bar and every sum, for renderers that draw no bar."""
    if ledger.problems:
        ledger = printed_only(ledger)
    rows = [_legend_row(ledger, part, options) for part in split(ledger)]
    rows += [*_unknown_rows(ledger), *_other_rows(ledger)] if rows else []
    return [(name, shown, how) for _, name, shown, how in rows]
