"""Several snapshots side by side: what is new, by category and by stack; which rank differs, and where."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.compare_model import Deviation, Side, SnapshotComparison, StackRow
from oomph.report.clean import flat
from oomph.report.layout import Style, wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.places import place_of, stack_place
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.text import Section, put_together
from oomph.report.snapshot.text_diverge import TITLE, divergence_lines
from oomph.report.snapshot.view import SnapshotView
from oomph.report.snapshot.words import headline, moment_title
from oomph.report.words import plural
from oomph.units import format_bytes

#: Rows of stacks that are listed: of two sides, and of each side that deviates.
_STACKS = 12
_STACKS_OF_EACH = 4
#: Sides that are listed, and labels of those that are alike.
_SIDES = 12
_ALIKE = 8
#: Sides that have a column of their own.
_COLUMNS = 4


def render_comparison(
    comparison: SnapshotComparison, views: Sequence[SnapshotView], options: ReportOptions
) -> str:
    """The comparison of snapshots, then each one's headline; ending in a newline."""
    style, width = Style(options.colour), options.columns
    everything = bool(getattr(options, "everything", False))
    sections: list[Section] = [
        ("", [style(line, "bold") for line in wrap(flat(comparison.says), width)]),
        ("Compared", _sides(comparison, width, everything=everything)),
        ("Settings that differ", setting_lines(comparison, width)),
        (TITLE, divergence_lines(comparison, width, stacks=bool(getattr(options, "stacks", False)))),
        ("By category", aligned(category_rows(comparison), width, "l" + "r" * 12)),
    ]
    if comparison.what == "two":
        sections.append(("By stack", _stacks(comparison, width, everything=everything)))
    for deviation in comparison.deviations:
        title = f"{flat(deviation.label)}: {signed(deviation.difference_bytes)}"
        sections.append((title, _deviation(deviation, width, everything=everything)))
    sections += [
        ("Alike", wrap(alike_words(comparison), width, "  ")),
        ("Notes", [line for note in comparison.notes for line in wrap(flat(note), width, "  - ")]),
        ("Each by itself", headlines(views, width, everything=everything)),
    ]
    return put_together(sections, width, style)


def headlines(views: Sequence[SnapshotView], width: int, *, everything: bool = True) -> list[str]:
    """Each file's headline; of many those of failures, as far as not `everything` is wanted."""
    shown = list(views)
    if not everything and len(shown) > _SIDES:
        shown = sorted(shown, key=lambda view: -view.report.exit_code)[:_SIDES]
    lines = [
        line
        for view in shown
        for line in wrap(f"{flat(view.report.source)}: {headline(view)}", width, "  - ")
    ]
    more = len(views) - len(shown)
    return [*lines, f"  and {more:,} more; --all lists them"] if more else lines


def _sides(comparison: SnapshotComparison, width: int, *, everything: bool) -> list[str]:
    """The table of what is compared; of many the middle one and those that differ from it."""
    shown = comparison.sides
    if not everything and len(shown) > _SIDES:
        wanted = {comparison.middle, *(deviation.side for deviation in comparison.deviations)}
        shown = tuple(side for number, side in enumerate(shown) if number in wanted)[:_SIDES]
    lines = aligned(side_rows(shown), width, "lrrrl")
    more = len(comparison.sides) - len(shown)
    return [*lines, f"  and {more:,} more; --all lists them"] if more else lines


def side_rows(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    """Heads and one row for each of what is compared."""
    rows: list[tuple[str, ...]] = [("", "allocated", "reserved", "peak reserved", "of")]
    for side in sides:
        where = f"{flat(side.source)}, GPU {side.device}, {moment_title_of(side)}"
        rows.append(
            (
                flat(side.label),
                format_bytes(side.allocated_bytes),
                format_bytes(side.reserved_bytes),
                format_bytes(side.peak_reserved_bytes),
                where,
            )
        )
    return rows


def moment_title_of(side: Side) -> str:
    """The moment of a side: "when the request failed"."""
    from oomph.diagnose.snapshot.model import Moment

    return moment_title(Moment(side.moment, side.position, side.events))


def setting_lines(comparison: SnapshotComparison, width: int) -> list[str]:
    """The settings that are not the same everywhere."""
    lines: list[str] = []
    for row in comparison.settings:
        told = "; ".join(
            f"{flat(side.label)}: {flat(value) or 'none'}"
            for side, value in zip(comparison.sides, row.values, strict=False)
        )
        lines += wrap(f"{flat(row.name)}: {told}", width, "  - ")
    return lines


def category_rows(comparison: SnapshotComparison) -> list[tuple[str, ...]]:
    """Heads and one row for each category: bytes of each side, or of many the middle, the least and the most."""
    if not comparison.categories:
        return []
    labels = [flat(side.label) for side in comparison.sides]
    if len(labels) <= _COLUMNS:
        rows: list[tuple[str, ...]] = [("category", *labels, "difference")]
        for row in comparison.categories:
            sizes = [format_bytes(size) for size in row.bytes]
            rows.append((str(row.category), *sizes, signed(row.difference_bytes)))
        return rows
    rows = [("category", "middle", "least", "of", "most", "of")]
    for row in comparison.categories:
        least, most = min(row.bytes), max(row.bytes)
        rows.append(
            (
                str(row.category),
                format_bytes(row.reference_bytes),
                format_bytes(least),
                labels[row.bytes.index(least)],
                format_bytes(most),
                labels[row.bytes.index(most)],
            )
        )
    return rows


def stack_rows(rows: Sequence[StackRow], a: str, b: str) -> list[tuple[str, ...]]:
    """Heads and one row for each stack that two sides hold differently."""
    told: list[tuple[str, ...]] = [("", a, b, "difference", "category", "allocated at")]
    for row in rows:
        told.append(  # noqa: PERF401 - a row is easier to read than a generator of rows
            (
                str(row.change),
                format_bytes(row.a_bytes),
                format_bytes(row.b_bytes),
                signed(row.difference_bytes),
                str(row.category),
                stack_place(row.place or place_of(row.frames), row.frames),
            )
        )
    return told


def _stacks(comparison: SnapshotComparison, width: int, *, everything: bool) -> list[str]:
    if not comparison.stacks or len(comparison.sides) < 2:
        return []
    shown = comparison.stacks if everything else comparison.stacks[:_STACKS]
    a, b = (flat(side.label) for side in comparison.sides[:2])
    lines = aligned(stack_rows(shown, a, b), width, "lrrrll")
    rest = comparison.stacks[len(shown) :]
    count = len(rest) + comparison.left_out
    if count:
        size = comparison.left_out_bytes + sum(abs(row.difference_bytes) for row in rest)
        lines += wrap(
            f"and {plural(count, 'other stack')} that differ by {format_bytes(size)} in all", width, "  "
        )
    return lines


def _deviation(deviation: Deviation, width: int, *, everything: bool) -> list[str]:
    lines = []
    if deviation.categories:
        told = ", ".join(f"{category} {signed(size)}" for category, size in deviation.categories)
        lines += wrap(f"by category: {told}", width, "  ")
    shown = deviation.stacks if everything else deviation.stacks[:_STACKS_OF_EACH]
    if shown:
        lines += aligned(stack_rows(shown, "middle", flat(deviation.label)), width, "lrrrll")
    return lines or ["  no category and no stack stands out"]


def alike_words(comparison: SnapshotComparison) -> str:
    """Which sides hold the same; "" where none do."""
    if len(comparison.alike) < 2:
        return ""
    told = ", ".join(flat(label) for label in comparison.alike[:_ALIKE])
    more = len(comparison.alike) - _ALIKE
    told += f" and {more:,} more" if more > 0 else ""
    within = f" to within {format_bytes(comparison.alike_bytes)}" if comparison.alike_bytes else ""
    return f"{told} hold the same{within}"


def signed(size_bytes: int) -> str:
    """A difference: "+1.00 GiB", "-512 bytes", "0 bytes"."""
    return f"+{format_bytes(size_bytes)}" if size_bytes > 0 else format_bytes(size_bytes)
