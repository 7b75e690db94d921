"""One device's trace: a list of dicts to columns.

A million events are a million dicts; whatever is done to each of them one by one in Python costs as much as loading
them. So a thousand events at a time, which fit into the processor's cache, are turned by key into lists, whose types
and ranges are checked as a whole; then their dicts are let go.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from oomph.evidence.snapshot.values import MOST, MOST_BYTES, MalformedError, pool_of
from oomph.memory.records import ACTIONS
from oomph.memory.stacks import Stacks
from oomph.memory.timeline import UNKNOWN, Kind, Timeline, empty_timeline

_NUMBERS = {action: int(kind) for action, kind in ACTIONS.items()}
#: Kinds whose events need neither an address nor a size: OOM, which has `device_free` in place of `addr`, and marks.
_MARKS = (int(Kind.OOM), int(Kind.SNAPSHOT), int(Kind.ANNOTATE))
#: How many events are taken at a time.
_PART = 1024
#: The numbers of an event: what stands for a missing one (None: it has to be there), and the least that is possible.
_COLUMNS: dict[str, tuple[int | None, int | None]] = {
    "addr": (None, 0),
    "size": (None, 0),
    "time_us": (UNKNOWN, UNKNOWN),
    "stream": (0, None),
}
_NO_POOL = np.array([UNKNOWN], np.int32).tobytes()
_WANTED = itemgetter("action", *_COLUMNS, "frames")

Events = list[dict[str, Any]]


def read_events(raw: list[Any], stacks: Stacks, notes: list[str]) -> Timeline:
    """The columns of one device's trace, whose list is emptied on the way: what comes next needs the memory.

    Raises MalformedError. Events of unknown actions are left out, with a note.
    """
    columns = _Columns()
    raw.reverse()
    while raw:
        part = raw[: -_PART - 1 : -1]
        del raw[-_PART:]
        columns.take(part)
    for action, count in sorted(columns.unknown.items())[:3]:
        notes.append(f"{count} events were left out: the action {action[:40]!r} is not known")
    return columns.timeline(stacks)


class _Columns:
    """Columns that grow by parts of a trace."""

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.numbers = {key: bytearray() for key in _COLUMNS}
        self.frame_lists: list[Sequence[object] | None] = []
        self.recorded = False
        self.free: dict[int, int] = {}
        self.pools: dict[tuple[int, int], int] = {}
        self.pool = bytearray()
        self.unknown: Counter[str] = Counter()

    def take(self, part: Events) -> None:
        """Adds these events. Raises MalformedError."""
        try:
            columns: list[Sequence[Any]] = list(zip(*map(_WANTED, part), strict=True))
        except KeyError:
            columns = list(zip(*map(_completed, part), strict=True))
        except TypeError:
            raise MalformedError("an event is not a dict") from None
        actions, *numbers, lists = columns
        try:
            kinds = bytes(map(_NUMBERS.__getitem__, actions))
        except (KeyError, TypeError):
            self._take_known(part, actions)
            return
        if any(mark in kinds for mark in _MARKS):
            numbers[0] = self._without_free(part, kinds, numbers[0])
        for (key, column), values in zip(self.numbers.items(), numbers, strict=True):
            try:
                # `pack` refuses fractions, text and None, which numpy would convert.
                column += struct.pack(f"{len(part)}q", *values)
            except struct.error:
                raise MalformedError(f"{key} of an event is not a number within reason") from None
        self._take_frames(lists)
        self._take_pools(part)
        self.kinds += kinds

    def _take_known(self, part: Events, actions: Sequence[object]) -> None:
        if set(map(type, actions)) != {str}:
            raise MalformedError("the action of an event is not text")
        self.unknown.update(str(action) for action in actions if action not in ACTIONS)
        if known := [event for event in part if event["action"] in ACTIONS]:
            self.take(known)

    def _without_free(self, part: Events, kinds: bytes, addresses: Sequence[int]) -> list[int]:
        """The addresses, none for an OOM. What was free on the device then is `device_free`, or, by the C++ writer,
        where the address is otherwise.
        """
        result = list(addresses)
        for place, kind in enumerate(kinds):
            if kind == Kind.OOM:
                result[place] = 0
                free = part[place].get("device_free", part[place].get("addr"))
                if type(free) is int and 0 <= free <= MOST_BYTES:
                    self.free[len(self.kinds) + place] = free
        return result

    def _take_frames(self, lists: Sequence[Sequence[object] | None]) -> None:
        """The stack of each event as it was read, unfolded later."""
        types = set(map(type, lists))
        if not types <= {list, tuple, type(None)}:
            raise MalformedError("frames of an event is not a list")
        self.recorded = self.recorded or types != {type(None)}
        self.frame_lists += lists

    def _take_pools(self, part: Events) -> None:
        """The pools that events name, and which of them each event names. Files before PyTorch 2.13 name none."""
        # Where events name them, all of them do, but for marks.
        if not any("pool_id" in event for event in part[:: max(len(part) // 64, 1)]):
            self.pool += _NO_POOL * len(part)
            return
        index = self.pools
        column = array("i")
        for event in part:
            if "pool_id" in event:
                pool = pool_of(event, "pool_id", "an event")
                column.append(index.setdefault(pool, len(index)))
            else:
                column.append(UNKNOWN)
        self.pool += column.tobytes()

    def timeline(self, stacks: Stacks) -> Timeline:
        """The columns so far. Raises MalformedError."""
        if not self.kinds:
            return replace(empty_timeline(), stacks=stacks)
        address, size, time, stream = (np.frombuffer(column, np.int64) for column in self.numbers.values())
        for column, (key, (_, least)) in zip((address, size, time, stream), _COLUMNS.items(), strict=True):
            if least is not None and int(column.min()) < least:
                raise MalformedError(f"{key} of an event is negative")
        if float(size.sum(dtype=np.float64)) > MOST_BYTES:
            raise MalformedError("its events add up to more bytes than any job moves")
        if int((MOST - size - address).min()) < 0:
            raise MalformedError("an event is about memory beyond all addresses")
        return Timeline(
            kind=np.frombuffer(self.kinds, np.int8),
            address=address,
            size_bytes=size,
            time_us=time,
            stream=stream,
            pool=np.frombuffer(self.pool, np.int32),
            pools=tuple(self.pools),
            free_bytes=self.free,
            stacks=stacks,
            frame_lists=self.frame_lists if self.recorded else None,
        )


def _completed(event: dict[str, Any]) -> tuple[Any, ...]:
    """What is wanted of an event that lacks some of it. Raises MalformedError when it has to be there."""
    if type(event) is not dict:
        raise MalformedError("an event is not a dict")
    action = event.get("action")
    values = [action]
    kind = _NUMBERS.get(action) if type(action) is str else None
    for key, (default, _) in _COLUMNS.items():
        value = event.get(key, default)
        if value is None and key not in event:
            if kind is not None and kind not in _MARKS:
                raise MalformedError(f"an event has no {key}")
            value = 0
        values.append(value)
    return (*values, event.get("frames"))
