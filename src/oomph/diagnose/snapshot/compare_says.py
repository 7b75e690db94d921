"""The answer of a comparison in one or two sentences."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.compare_match import tail
from oomph.diagnose.snapshot.compare_model import CategoryRow, Change, Deviation, Side, StackRow
from oomph.memory.categories import Category
from oomph.units import format_bytes

#: How many sides that differ are told of; the rest is counted.
_TOLD = 3
#: The same of the categories of one side.
_PARTS = 2


def about_two(a: Side, b: Side, categories: Sequence[CategoryRow], rows: Sequence[StackRow]) -> str:
    """What `b` holds other than `a`. `categories` and `rows` are ordered, largest difference first."""
    difference = b.allocated_bytes - a.allocated_bytes
    differing = [row for row in categories if row.difference_bytes]
    if not rows and not differing:
        return _begun(f"{a.label} and {b.label} hold the same: {format_bytes(a.allocated_bytes)} allocated.")
    if difference:
        says = (
            f"{b.label} has {format_bytes(b.allocated_bytes)} allocated, {_more(difference)} than {a.label} "
            f"({format_bytes(a.allocated_bytes)})"
        )
    else:
        says = (
            f"{a.label} and {b.label} have {format_bytes(a.allocated_bytes)} allocated, but not for the same"
        )
    if differing:
        says += f": {_parts([(row.category, row.difference_bytes) for row in differing])}"
    says += "."
    if rows:
        says += f" The largest single difference is {_stack(rows[0])}."
    return _begun(says)


def about_many(
    noun: str,
    sides: Sequence[Side],
    middle: int,
    deviations: Sequence[Deviation],
    alike: Sequence[int],
    spread_bytes: int,
) -> str:
    """Which sides are not like the middle one, and which are. `alike` are the indices of those that are."""
    if not deviations:
        held = format_bytes(sides[middle].allocated_bytes)
        return f"All {len(sides)} {noun} hold the same: {held} allocated{_within(spread_bytes)}."
    told = [_deviation(one, sides, middle) for one in deviations[:_TOLD]]
    if len(deviations) > _TOLD:
        told.append(f"{len(deviations) - _TOLD} more {noun} differ from {sides[middle].label}")
    if len(alike) > 1:
        told.append(
            f"{_listed([sides[index].label for index in alike])} hold the same{_within(spread_bytes)}"
        )
    else:
        ordered = sorted(sides, key=lambda side: side.allocated_bytes)
        least, most = ordered[0], ordered[-1]
        told.append(
            f"no two {noun} hold the same: from {format_bytes(least.allocated_bytes)} ({least.label}) "
            f"to {format_bytes(most.allocated_bytes)} ({most.label})"
        )
    return " ".join(f"{_begun(text)}." for text in told)


def _deviation(one: Deviation, sides: Sequence[Side], middle: int) -> str:
    side = sides[one.side]
    reference = sides[middle].label
    if one.difference_bytes:
        more = _more(one.difference_bytes)
        says = f"{one.label} has {format_bytes(side.allocated_bytes)} allocated, {more} than {reference}"
    else:
        says = f"{one.label} has as much allocated as {reference}, but not for the same"
    if one.categories:
        says += f": {_parts(one.categories)}"
    if one.stacks:
        says += f"; the largest single difference is {_stack(one.stacks[0])}"
    return says


def _begun(sentence: str) -> str:
    """With a capital letter, unless it begins with the name of a file."""
    own = sentence.startswith(("rank ", "device ", "event ", "no two "))
    return sentence[:1].upper() + sentence[1:] if own else sentence


def _parts(differences: Sequence[tuple[Category, int]]) -> str:
    """`activations +1.20 GiB, temporaries -300.00 MiB`: the largest, then how many there are besides."""
    told = [f"{category} {_signed(size)}" for category, size in differences[:_PARTS]]
    rest = len(differences) - len(told)
    if rest:
        told.append(f"and {rest} other {'category' if rest == 1 else 'categories'}")
    return ", ".join(told)


def _stack(row: StackRow) -> str:
    if row.place is not None:
        line = f":{row.place.line}" if row.place.line > 0 else ""
        where = f"at {row.place.function} ({tail(row.place.file)}{line})"
    else:
        where = "without a place in Python" if row.frames else "without a recorded stack"
    if row.change in (Change.NEW, Change.GONE):
        return f"{row.change}: {format_bytes(abs(row.difference_bytes))} of {row.category} {where}"
    return f"{_signed(row.difference_bytes)} of {row.category} {where}"


def _more(difference_bytes: int) -> str:
    word = "more" if difference_bytes > 0 else "less"
    return f"{format_bytes(abs(difference_bytes))} {word}"


def _signed(difference_bytes: int) -> str:
    return ("+" if difference_bytes > 0 else "") + format_bytes(difference_bytes)


def _within(spread_bytes: int) -> str:
    return f", to within {format_bytes(spread_bytes)}" if spread_bytes else ""


def _listed(labels: Sequence[str]) -> str:
    """`rank 1, rank 2 and rank 5`; `rank 1 to rank 7` where the numbers follow each other."""
    parts: list[tuple[str, str]] = []
    for label in labels:
        if parts and _follows(parts[-1][1], label):
            parts[-1] = (parts[-1][0], label)
        else:
            parts.append((label, label))
    texts = []
    for first, last in parts:
        if first == last:
            texts.append(first)
        elif _follows(first, last):
            texts += [first, last]
        else:
            texts.append(f"{first} to {last}")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _follows(first: str, second: str) -> bool:
    word, _, number = first.rpartition(" ")
    next_word, _, next_number = second.rpartition(" ")
    both = number.isdecimal() and next_number.isdecimal() and word == next_word
    return both and int(next_number) == int(number) + 1
