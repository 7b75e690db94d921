"""Which stack of one snapshot is which of another, and how many bytes each holds.

Two runs of the same code have the same stacks, frame by frame. Two versions of it have not: a line that was added
moves all below it, another folder changes every file's path, another Python the interpreter's own frames. So what is
left after exact matching is matched by its Python frames without folders, and without the lines of those files that
were edited. What is still left is matched from the place in the user's code inwards: another script may call the same
model. Each step joins more and proves less, and each row says which one it took.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from oomph.diagnose.snapshot.compare_model import Change, Matching, StackRow
from oomph.diagnose.snapshot.places import is_python, is_users, place_of
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.stacks import Frame

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Up to here a path says only where a library is installed.
_INSTALLED = re.compile(r".*(?:(?:site|dist)-packages|/lib/python[\d.]+)/", re.IGNORECASE)
#: A file is taken as edited when of the (function, line) pairs that two snapshots could share fewer than this part is
#: shared. An edit moves all lines below it, and unedited files share nearly all lines, so the two are far apart.
_SHARED = 0.5

#: By file (its tail) and function, the lines that stacks show.
Lines = dict[str, dict[str, set[int]]]


@dataclass
class Held:
    """What was alive of one stack (innermost frame first): bytes and blocks by category."""

    frames: tuple[Frame, ...]
    bytes: Counter[Category] = field(default_factory=Counter)
    blocks: Counter[Category] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


class Content:
    """What one analysis has to compare, each part computed once however many sides it is compared with."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    @cached_property
    def held(self) -> list[Held]:
        return held(self._analysis)

    @cached_property
    def lines(self) -> Lines:
        """The lines of everything that was ever allocated: more of them than of what was alive."""
        analysis = self._analysis
        numbers = np.unique(analysis.block_stack).tolist()
        return _lines({frame for number in numbers for frame in analysis.frames(number)})


def held(analysis: Analysis) -> list[Held]:
    """What was alive at the analysis's moment, by stack. Blocks without a stack are one entry per category, without
    frames."""
    alive = analysis.alive
    numbers, where = np.unique(analysis.block_stack[alive], return_inverse=True)
    categories = analysis.block_category[alive].astype(np.int64)
    cells = where * len(CATEGORIES) + categories
    shape = (len(numbers), len(CATEGORIES))
    sums = np.zeros(shape[0] * shape[1], np.int64)
    np.add.at(sums, cells, analysis.alive_bytes)
    totals: Any = sums.reshape(shape).tolist()
    blocks: Any = np.bincount(cells, minlength=len(sums)).reshape(shape).tolist()
    found: dict[Hashable, Held] = {}
    for index, number in enumerate(numbers.tolist()):
        frames = analysis.frames(number)
        for category, size, count in zip(CATEGORIES, totals[index], blocks[index], strict=True):
            if count:
                entry = found.setdefault(frames or category, Held(frames))
                entry.blocks[category] += count
                entry.bytes[category] += size
    return list(found.values())


def match(a: Content, b: Content) -> list[StackRow]:
    """Every stack that holds other bytes in `b` than in `a`, largest difference first."""
    rows, left_a, left_b = _pair(a.held, b.held, _exactly, Matching.STACK)
    if left_a and left_b:
        edited = _edited_files(a.lines, b.lines)
        more, left_a, left_b = _pair(left_a, left_b, lambda one: _moved(one.frames, edited), Matching.MOVED)
        rows += more
        more, left_a, left_b = _pair(left_a, left_b, lambda one: _inwards(one.frames, edited), Matching.PLACE)
        rows += more
    rows += [row for one in left_a for row in _rows([one], [], Matching.STACK)]
    rows += [row for one in left_b for row in _rows([], [one], Matching.STACK)]
    return sorted(
        (row for row in rows if row.difference_bytes),
        key=lambda row: (-abs(row.difference_bytes), row.change, _order(row.frames)),
    )


def _pair(
    a: list[Held], b: list[Held], key: Callable[[Held], Hashable | None], matching: Matching
) -> tuple[list[StackRow], list[Held], list[Held]]:
    """Rows of those that have a key on both sides, and the rest of each side."""
    of_a, of_b = _by_key(a, key), _by_key(b, key)
    both = [each for each in of_a if each in of_b and each is not None]
    rows = [row for each in both for row in _rows(of_a[each], of_b[each], matching)]
    taken = {id(one) for each in both for one in (*of_a[each], *of_b[each])}
    return rows, [one for one in a if id(one) not in taken], [one for one in b if id(one) not in taken]


def _exactly(one: Held) -> Hashable:
    return one.frames or tuple(one.bytes)


def _by_key(entries: Iterable[Held], key: Callable[[Held], Hashable | None]) -> dict[Hashable, list[Held]]:
    found: dict[Hashable, list[Held]] = defaultdict(list)
    for entry in entries:
        found[key(entry)].append(entry)
    return found


def _rows(a: list[Held], b: list[Held], matching: Matching) -> list[StackRow]:
    """One row; where the stack is mostly one thing on one side and another on the other, a row for each of them."""
    main_a, main_b = _main(a), _main(b)
    if main_a is None or main_b is None or main_a is main_b:
        return [_row(a, b, matching, None)]
    categories = {category for one in (*a, *b) for category in one.bytes}
    return [_row(a, b, matching, category) for category in CATEGORIES if category in categories]


def _main(entries: list[Held]) -> Category | None:
    """The category of most bytes."""
    categories: Counter[Category] = Counter()
    for one in entries:
        categories.update(one.bytes)
    return max(categories, key=lambda each: categories[each], default=None)


def _row(a: list[Held], b: list[Held], matching: Matching, of: Category | None) -> StackRow:
    """What the two sides hold; with `of`, of that category alone."""
    a_bytes, b_bytes = (sum(one.total if of is None else one.bytes[of] for one in side) for side in (a, b))
    a_blocks, b_blocks = (
        sum(one.blocks.total() if of is None else one.blocks[of] for one in side) for side in (a, b)
    )
    frames = max(b or a, key=lambda one: one.total).frames
    return StackRow(
        change=_change(a_bytes, b_bytes),
        frames=frames,
        place=place_of(frames),
        category=of or _main([*a, *b]) or Category.UNKNOWN,
        a_bytes=a_bytes,
        b_bytes=b_bytes,
        a_blocks=a_blocks,
        b_blocks=b_blocks,
        matching=matching,
    )


def _change(a_bytes: int, b_bytes: int) -> Change:
    if a_bytes == b_bytes:
        return Change.SAME
    if not a_bytes:
        return Change.NEW
    if not b_bytes:
        return Change.GONE
    return Change.GROWN if b_bytes > a_bytes else Change.SHRUNK


# -- files ------------------------------------------------------------------------------------------------------------


def tail(file: str) -> str:
    """The part of a path that other folders leave as it is: from an installed package on, else the file's name."""
    path = file.replace("\\", "/")
    installed = _INSTALLED.match(path)
    return path[installed.end() :] if installed else path.rpartition("/")[2]


def _edited_files(lines_a: Lines, lines_b: Lines) -> frozenset[str]:
    """Tails of files whose lines moved between two snapshots, judged by the functions that both show."""
    edited = set()
    for file in lines_a.keys() & lines_b.keys():
        functions = lines_a[file].keys() & lines_b[file].keys()
        ours = {(name, line) for name in functions for line in lines_a[file][name]}
        theirs = {(name, line) for name in functions for line in lines_b[file][name]}
        if functions and len(ours & theirs) < _SHARED * min(len(ours), len(theirs)):
            edited.add(file)
    return frozenset(edited)


def _lines(frames: set[Frame]) -> Lines:
    found: Lines = defaultdict(lambda: defaultdict(set))
    for frame in frames:
        if frame.line > 0:
            found[tail(frame.file)][frame.function].add(frame.line)
    return found


def _moved(frames: tuple[Frame, ...], edited: frozenset[str]) -> Hashable | None:
    """The Python frames; of a stack that has none (autograd's thread) the functions, whatever their files."""
    python = tuple(_without_folder(frame, edited) for frame in frames if is_python(frame))
    return python or tuple(frame.function for frame in frames) or None


def _inwards(frames: tuple[Frame, ...], edited: frozenset[str]) -> Hashable | None:
    """The Python frames from the innermost one to the place in the user's code; None where there is no such place."""
    key = []
    for frame in frames:
        if is_python(frame):
            key.append(_without_folder(frame, edited))
            if is_users(frame):
                return tuple(key)
    return None


def _without_folder(frame: Frame, edited: frozenset[str]) -> tuple[str, str, int]:
    file = tail(frame.file)
    return frame.function, file, -1 if file in edited else frame.line


def _order(frames: tuple[Frame, ...]) -> tuple[tuple[str, str, int], ...]:
    return tuple((frame.file, frame.function, frame.line) for frame in frames)
