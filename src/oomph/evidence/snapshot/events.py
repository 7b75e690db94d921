"""One device's trace: a list of dicts to columns, each checked as a whole.

A million events are a million dicts; whatever is done to each of them one by one in Python costs as much as loading
them. So each key becomes one list, whose types are checked by one set.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oomph.evidence.snapshot.values import MOST, MalformedError, pool_of
from oomph.memory.stacks import Stacks
from oomph.memory.timeline import UNKNOWN, Kind, Timeline, empty_timeline

ACTIONS = {
    "alloc": Kind.ALLOC,
    "free_requested": Kind.FREE_REQUESTED,
    "free_completed": Kind.FREE_COMPLETED,
    "segment_alloc": Kind.SEGMENT_ALLOC,
    "segment_free": Kind.SEGMENT_FREE,
    "segment_map": Kind.SEGMENT_MAP,
    "segment_unmap": Kind.SEGMENT_UNMAP,
    "oom": Kind.OOM,
    "snapshot": Kind.SNAPSHOT,
    "annotate": Kind.ANNOTATE,
}
#: Kinds whose events need neither an address nor a size: marks, and OOM, which has `device_free` in place of `addr`.
_MARKS = (Kind.OOM, Kind.SNAPSHOT, Kind.ANNOTATE)

_NUMBERS = {action: int(kind) for action, kind in ACTIONS.items()}

Events = list[dict[str, Any]]


def read_events(raw: list[Any], stacks: Stacks, notes: list[str]) -> Timeline:
    """The columns of one device's trace. Raises MalformedError. Events of unknown actions are left out, with a note."""
    if not raw:
        return empty_timeline()
    if set(map(type, raw)) != {dict}:
        raise MalformedError("an event is not a dict")
    actions = _column(raw, "action", None)
    if set(map(type, actions)) != {str}:
        raise MalformedError("the action of an event is not text")
    unknown = set(actions) - set(ACTIONS)
    if unknown:
        counts = Counter(action for action in actions if action in unknown)
        for action, count in sorted(counts.items())[:3]:
            notes.append(f"{count} events were left out: the action {action[:40]!r} is not known")
        raw = [event for event, action in zip(raw, actions, strict=True) if action in ACTIONS]
        return read_events(raw, stacks, notes)
    kind = np.fromiter(map(_NUMBERS.__getitem__, actions), np.int8, len(raw))
    free = _free(raw, kind)
    raw = _marks_completed(raw, kind)
    pools, pool = _pools(raw)
    return Timeline(
        kind=kind,
        address=_numbers(raw, "addr"),
        size_bytes=_numbers(raw, "size"),
        time_us=_numbers(raw, "time_us", default=UNKNOWN, least=UNKNOWN),
        stream=_numbers(raw, "stream", default=0, least=None),
        pool=pool,
        pools=pools,
        free_bytes=free,
        stacks=stacks,
        frame_lists=_frame_lists(raw),
    )


def _column(raw: Events, key: str, default: object) -> list[Any]:
    """The values of one key; `default` where an event lacks it."""
    try:
        return list(map(itemgetter(key), raw))
    except KeyError:
        return [event.get(key, default) for event in raw]


def _marks_completed(raw: Events, kind: NDArray[np.int8]) -> Events:
    """The events with an address and a size for every mark, so that whole columns can be taken at once."""
    marks = np.flatnonzero(np.isin(kind, np.array(_MARKS, np.int8))).tolist()
    if marks:
        raw = raw.copy()
        for position in marks:
            raw[position] = {"addr": 0, "size": 0, **raw[position]}
            if kind[position] == Kind.OOM:
                raw[position]["addr"] = 0
    return raw


def _numbers(
    raw: Events, key: str, *, default: int | None = None, least: int | None = 0
) -> NDArray[np.int64]:
    """A column of ints of 64 bits, none below `least`. An event without the key has `default`, if there is one."""
    try:
        # An array refuses fractions, text and None, which numpy would convert.
        values = array("q", map(itemgetter(key), raw))
    except KeyError:
        values = _incomplete(raw, key, default)
    except (TypeError, OverflowError):
        raise MalformedError(f"{key} of an event is not a number within reason") from None
    column = np.frombuffer(values, np.int64)
    if least is not None and int(column.min()) < least:
        raise MalformedError(f"{key} of an event is negative")
    return column


def _incomplete(raw: Events, key: str, default: int | None) -> array[int]:
    if default is None:
        raise MalformedError(f"an event has no {key}")
    try:
        return array("q", [event.get(key, default) for event in raw])
    except (TypeError, OverflowError):
        raise MalformedError(f"{key} of an event is not a number within reason") from None


def _free(raw: Events, kind: NDArray[np.int8]) -> dict[int, int]:
    """What was free on the device at each OOM event: `device_free`, which the C++ writer calls `addr`."""
    result = {}
    for position in np.flatnonzero(kind == Kind.OOM).tolist():
        free = raw[position].get("device_free", raw[position].get("addr"))
        if type(free) is int and 0 <= free <= MOST:
            result[position] = free
    return result


def _pools(raw: Events) -> tuple[tuple[tuple[int, int], ...], NDArray[np.int32]]:
    """The pools that events name, and which of them each event names. Files before PyTorch 2.13 name none."""
    column = np.full(len(raw), UNKNOWN, np.int32)
    index: dict[tuple[int, int], int] = {}
    if any(map(dict.__contains__, raw, repeat("pool_id"))):
        for position, event in enumerate(raw):
            if "pool_id" in event:
                pool = pool_of(event, "pool_id", "an event")
                column[position] = index.setdefault(pool, len(index))
    return tuple(index), column


def _frame_lists(raw: Events) -> Sequence[Sequence[object] | None] | None:
    """The stack of each event as it was read, unfolded later; None when no event has one."""
    lists = _column(raw, "frames", None)
    kinds = set(map(type, lists))
    if kinds <= {type(None)}:
        return None
    if not kinds <= {list, type(None)}:
        raise MalformedError("frames of an event is not a list")
    return lists
