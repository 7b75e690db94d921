"""From overlapping pieces of a text to the passages that are kept: merged, within a budget, cut at line ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from oomph.evidence.sources.limits import cost

#: Less than this is not worth keeping of a piece.
_LEAST = 2048


@dataclass(frozen=True)
class Piece:
    """Text from byte `start`, which is in line `line`. Lower `rank` is kept first. The bytes from `first_hit` to
    `last_hit` are what the piece is kept for; -1: nothing in particular, it may be cut anywhere."""

    start: int
    line: int
    text: bytes
    rank: int
    first_hit: int = -1
    last_hit: int = -1

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Passage:
    """Text that is kept, without its last line end: its first line's number, and its offset in the input."""

    line: int
    start: int
    text: bytes


def choose(pieces: Iterable[Piece], budget: int, size: int, needs: list[int] | None = None) -> list[Passage]:
    """The passages, in order, of at most about `budget` bytes of an input of `size` bytes. Where `needs` is given,
    every budget from its largest number to `budget` would have chosen the same."""
    ordered = sorted((piece for piece in pieces if piece.text), key=lambda piece: piece.rank)
    kept: list[Piece] = []
    for _, tier in groupby(ordered, key=lambda piece: piece.rank):
        candidates = list(tier)
        merged = _merge([*kept, *candidates])
        spent = sum(cost(piece.text) for piece in merged)
        if needs is not None:
            needs.append(min(spent, budget))
        if spent <= budget:
            kept = merged
            continue
        room = budget - sum(cost(piece.text) for piece in kept)
        for piece in _ends_first(candidates):
            if room < _LEAST:
                break
            fitting = _shortened(piece, room)
            kept.append(fitting)
            room -= cost(fitting.text)
        kept = _merge(kept)
    return [passage for piece in kept if (passage := _trim(piece, size)).text]


def _shortened(piece: Piece, room: int) -> Piece:
    """`piece`, or the most telling part of it that costs `room`: what leads to its first hit, and the hit; without a
    hit (the end of the input) the last."""
    if cost(piece.text) <= room:
        return piece
    size = min(room, len(piece.text))
    while True:
        low = len(piece.text) - size
        if piece.first_hit >= 0:
            low = max(0, min(low, piece.first_hit - piece.start - size * 3 // 4))
        text = piece.text[low : low + size]
        price = cost(text)
        if price <= room:
            break
        size = min(size * room // price, size - 1)  # short lines cost more than their bytes
    start = piece.start + low
    line = piece.line + piece.text.count(b"\n", 0, low)
    return Piece(start, line, text, piece.rank, piece.first_hit, min(piece.last_hit, start + size))


def _ends_first(pieces: list[Piece]) -> list[Piece]:
    """First, last, second, last but one, ...: where a failure's cause and its end are."""
    pieces = sorted(pieces, key=lambda piece: piece.start)
    order: list[Piece] = []
    low, high = 0, len(pieces) - 1
    while low <= high:
        order.append(pieces[low])
        if low != high:
            order.append(pieces[high])
        low, high = low + 1, high - 1
    return order


def _merge(pieces: list[Piece]) -> list[Piece]:
    """Pieces that touch or overlap as one."""
    merged: list[Piece] = []
    group: list[Piece] = []
    reach = -1
    for piece in sorted(pieces, key=lambda piece: piece.start):
        if group and piece.start > reach:
            merged.append(_joined(group))
            group = []
        group.append(piece)
        reach = max(reach, piece.end)
    if group:
        merged.append(_joined(group))
    return merged


def _joined(group: list[Piece]) -> Piece:
    """One piece of a group that is sorted and has no hole."""
    first = group[0]
    if len(group) == 1:
        return first
    text = bytearray()
    reach = first.start
    for piece in group:
        if piece.end > reach:
            text += memoryview(piece.text)[reach - piece.start :]
            reach = piece.end
    hits = [piece.first_hit for piece in group if piece.first_hit >= 0]
    return Piece(
        first.start,
        first.line,
        bytes(text),
        min(piece.rank for piece in group),
        min(hits, default=-1),
        max(piece.last_hit for piece in group),
    )


def _trim(piece: Piece, size: int) -> Passage:
    """Cuts partial lines off both ends, never into what the piece is kept for; nothing may be left of a sample. Where
    a line has no end (a progress bar's carriage returns, one endless line) the cut is at a carriage return or between
    two characters."""
    text, line, start = piece.text, piece.line, piece.start
    end = len(text)
    if piece.end < size:
        end = _cut_end(text, max(0, piece.last_hit - start))
    elif text.endswith(b"\n"):
        end -= 1
    begin = 0
    if start > 0:
        if piece.first_hit >= 0:
            most = min(end, max(0, piece.first_hit - start))
        else:  # the input's last line end has no line behind it
            most = len(text) if piece.end < size else end
        newline = text.find(b"\n", 0, most)
        if newline >= 0:
            begin, line = newline + 1, line + 1
        else:
            begin = text.find(b"\r", 0, most) + 1
            while begin < min(4, end) and text[begin] & 0xC0 == 0x80:
                begin += 1
    return Passage(line, start + begin, text[begin:end])


def _cut_end(text: bytes, least: int) -> int:
    """Where to end `text`, whose last line may be cut, at or after `least`."""
    for stop in (b"\n", b"\r"):
        end = text.rfind(stop, least)
        if end > 0:
            return end
    end = len(text)
    while end > max(0, len(text) - 4) and text[end - 1] & 0x80:
        end -= 1
    return end
