"""The segments of a device at the moment, as pieces for the map: blocks and holes in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.diagnose.snapshot.model import DeviceReport, PoolUse
from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, SegmentState
from oomph.report.snapshot.words import pool_words
from oomph.report.words import plural
from oomph.units import format_bytes

#: What a piece is, where it is no category.
FREE = -1
PENDING = -2

#: Pieces that a page holds; above that, small neighbours of one kind become one piece.
MOST_PIECES = 60_000

GroupKey = tuple[tuple[int, int], int, bool, bool]


@dataclass
class _Piece:
    segment: int
    offset: int
    size: int
    category: int
    requested: int = 0
    stack: int = -1
    count: int = 1


def segment_data(
    layout: Sequence[SegmentState],
    rows: Mapping[int, tuple[int, int]],
    device: DeviceReport,
    unknown: int,
    most: int = MOST_PIECES,
) -> tuple[dict[str, object], list[int]]:
    """The map's data, and the stack number of each piece.

    rows: (category, stack) of the block at an address. unknown: the category of blocks that are not among them.
    """
    groups: dict[GroupKey, list[SegmentState]] = {}
    for segment in layout:
        groups.setdefault(_key(segment), []).append(segment)
    order = sorted(groups, key=lambda key: (-sum(one.size for one in groups[key]), key))
    ordered = [segment for key in order for segment in sorted(groups[key], key=_by_holes)]
    pieces = _pieces(ordered, rows, unknown)
    if len(pieces) > most:
        pieces = _folded(pieces, most)
    data = {
        "groups": [_words(key, groups[key], device) for key in order],
        "segments": {
            "address": [hex(segment.address) for segment in ordered],
            "bytes": [segment.size for segment in ordered],
            "group": [number for number, key in enumerate(order) for _ in groups[key]],
        },
        "pieces": {
            "segment": [piece.segment for piece in pieces],
            "offset": [piece.offset for piece in pieces],
            "bytes": [piece.size for piece in pieces],
            "category": [piece.category for piece in pieces],
            "requested": [piece.requested for piece in pieces],
            "count": [piece.count for piece in pieces],
        },
        "largest_hole": _largest_hole(ordered, pieces, device),
        "request": 0 if device.failure is None else device.failure.request_bytes,
    }
    return data, [piece.stack for piece in pieces]


def _by_holes(segment: SegmentState) -> tuple[int, int, int]:
    """Where free memory lies in pieces is looked at first: the largest hole, then the largest segment."""
    hole = max((block.size for block in segment.blocks if block.state == INACTIVE), default=0)
    return -hole, -segment.size, segment.address


def _key(segment: SegmentState) -> GroupKey:
    return segment.pool, segment.stream, segment.small, segment.expandable


def _words(key: GroupKey, segments: Sequence[SegmentState], device: DeviceReport) -> str:
    pool, stream, small, expandable = key
    known = [one for one in device.pools if (one.pool, one.stream, one.small, one.expandable) == key]
    reserved = sum(segment.size for segment in segments)
    name = pool_words(known[0] if known else PoolUse(pool, stream, small, expandable, 0, 0, 0, 0, 0))
    told = f"{name}: {format_bytes(reserved)} in {plural(len(segments), 'segment')}"
    if known and known[0].holes:
        cached, hole = format_bytes(known[0].cached_bytes), format_bytes(known[0].largest_hole_bytes)
        told += f", {cached} of it free in {plural(known[0].holes, 'hole')}, the largest {hole}"
    return told


def _pieces(
    segments: Sequence[SegmentState], rows: Mapping[int, tuple[int, int]], unknown: int
) -> list[_Piece]:
    pieces = []
    for number, segment in enumerate(segments):
        for block in segment.blocks:
            offset = block.address - segment.address
            if block.state == INACTIVE:
                pieces.append(_Piece(number, offset, block.size, FREE))
                continue
            category, stack = rows.get(block.address, (unknown, -1))
            if block.state != ALLOCATED:
                category = PENDING
            pieces.append(_Piece(number, offset, block.size, category, block.requested, stack))
    return pieces


def _folded(pieces: Sequence[_Piece], most: int) -> list[_Piece]:
    """The `most` largest as they are; smaller neighbours of one segment and kind as one piece."""
    least = sorted((piece.size for piece in pieces), reverse=True)[most - 1]
    result: list[_Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if (
            last is not None
            and piece.size <= least
            and (last.segment, last.category) == (piece.segment, piece.category)
            and (last.size <= least or last.count > 1)
        ):
            last.size += piece.size
            last.requested += piece.requested
            last.count += piece.count
            last.stack = -1
        else:
            result.append(piece)
    return result


def _largest_hole(segments: Sequence[SegmentState], pieces: Sequence[_Piece], device: DeviceReport) -> int:
    """The largest hole that the failed request may use, else the largest of all; -1 for none."""
    failure = device.failure
    best, largest = -1, 0
    for number, piece in enumerate(pieces):
        if piece.category != FREE or piece.size <= largest:
            continue
        segment = segments[piece.segment]
        mine = failure is None or (
            (segment.pool, segment.stream, segment.small) == (failure.pool, failure.stream, failure.small)
        )
        if mine:
            best, largest = number, piece.size
    return best
