"""What only a trace knows, from a snapshot's key "oomph" (written by `oomph trace`; see docs/trace.md).

It is checked as everything in a file is. One that is not as expected is passed over with a note: the file is a snapshot
all the same.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oomph.evidence.snapshot.values import (
    MOST_BYTES,
    MalformedError,
    as_dict,
    as_flag,
    as_int,
    as_list,
    as_text,
)
from oomph.memory.categories import CATEGORIES
from oomph.memory.timeline import Kind, Timeline
from oomph.phases import Phase

SCHEMA_VERSION = 1
#: Sentences and names in one list, at most.
_MOST_TEXTS = 1_000_000
_MOST_RANKS = 1 << 24
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True, eq=False)
class Columns:
    """One device's exact columns. `phase` (index into `tuple(Phase)`) and `step` (optimizer steps that were done) have
    one entry per event, `category` (index into CATEGORIES) and `label` (index into `labels`) one per ALLOC event.
    `before` has the two of blocks that were there before the first event, by address: of a part of a trace."""

    phase: NDArray[np.int8]
    step: NDArray[np.int32]
    category: NDArray[np.int8]
    label: NDArray[np.int32]
    labels: tuple[str, ...]
    before: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """The exception with which the traced script ended by itself."""

    kind: str
    text: str
    traceback: str
    out_of_memory: bool


@dataclass(frozen=True)
class Traced:
    """What a trace says beside the snapshot. Sizes are bytes.

    `gpu` and `torch` are what it speaks for, `installed_torch` the PyTorch that ran. `windows` are positions (begin,
    end) of what the script recorded itself with torch's memory history, by device. `unruled` says of operators without
    a rule of the kernel memory model how often they ran and how large their largest result was. `uncertain_bytes` is
    by how much kernels may take more than the model at the peak.
    """

    gpu: str
    torch: str
    installed_torch: str
    rank: int = 0
    world: int = 1
    capacity_bytes: int | None = None
    steps_done: int = 0
    operators: int = 0
    seconds: float = 0.0
    windows: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    suppressed: tuple[str, ...] = ()
    unruled: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    uncertain_bytes: int = 0
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failed: Ended | None = None
    columns: Mapping[int, Columns] = field(default_factory=dict, repr=False)

    @property
    def torch_version(self) -> tuple[int, int] | None:
        """`torch` as two numbers; None for text without any, and for a version that never had such a trace."""
        match = _VERSION.match(self.torch)
        version = (0, 0) if match is None else (int(match[1]), int(match[2]))
        return version if version >= (2, 0) else None


def read_traced(raw: object, timelines: Sequence[Timeline], notes: list[str]) -> Traced | None:
    """The checked content of the key; None, with a note, where it is not as expected."""
    try:
        top = as_dict(raw, "it")
        version = as_int(top.get("schema_version"), "its schema_version")
        if version > SCHEMA_VERSION:
            raise MalformedError(f"a newer oomph wrote it (version {version})")
        return _traced(top, timelines)
    except MalformedError as error:
        notes.append(
            f"What a trace says beside the snapshot was passed over: {error}. Categories, phases and steps are told "
            "from stacks and lifetimes instead."
        )
        return None


def _traced(top: Mapping[str, object], timelines: Sequence[Timeline]) -> Traced:
    capacity = top.get("capacity_bytes")
    seconds = top.get("seconds", 0.0)
    if type(seconds) not in (float, int):
        raise MalformedError("seconds is not a number")
    world = _count(top, "world", _MOST_RANKS, 1)
    rank = _count(top, "rank", _MOST_RANKS)
    if rank >= max(world, 1):
        raise MalformedError("rank is not below world")
    return Traced(
        gpu=as_text(top.get("gpu"), "gpu"),
        torch=as_text(top.get("torch"), "torch"),
        installed_torch=as_text(top.get("installed_torch"), "installed_torch"),
        rank=rank,
        world=world,
        capacity_bytes=None if capacity is None else _count(top, "capacity_bytes", MOST_BYTES),
        steps_done=_count(top, "steps_done", 1 << 31),
        operators=_count(top, "operators", MOST_BYTES),
        seconds=float(seconds),  # type: ignore[arg-type] # a number, as was checked
        windows=_windows(top, timelines),
        suppressed=_texts(top, "suppressed"),
        unruled=_unruled(top),
        uncertain_bytes=_count(top, "uncertain_bytes", MOST_BYTES),
        assumptions=_texts(top, "assumptions"),
        notes=_texts(top, "notes"),
        failed=_ended(top.get("failed")),
        columns=_devices(top, timelines),
    )


def _count(top: Mapping[str, object], key: str, most: int, default: int = 0) -> int:
    value = as_int(top.get(key, default), key)
    if value > most:
        raise MalformedError(f"{key} is not a number within reason")
    return value


def _texts(top: Mapping[str, object], key: str) -> tuple[str, ...]:
    found = as_list(top.get(key, []), key)
    if len(found) > _MOST_TEXTS or any(type(each) is not str for each in found):
        raise MalformedError(f"{key} is not a list of sentences")
    return tuple(map(str, found))


def _unruled(top: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    result = {}
    for name, numbers in as_dict(top.get("unruled", {}), "unruled").items():
        pair = as_list(numbers, "an entry of unruled")
        if len(pair) != 2:
            raise MalformedError("an entry of unruled is not two numbers")
        times, size = (as_int(value, "an entry of unruled") for value in pair)
        result[as_text(name, "a name in unruled")] = (times, min(size, MOST_BYTES))
    return result


def _windows(
    top: Mapping[str, object], timelines: Sequence[Timeline]
) -> dict[int, tuple[tuple[int, int], ...]]:
    result = {}
    for device, windows in as_dict(top.get("windows", {}), "windows").items():
        index = as_int(device, "a device in windows")
        events = len(timelines[index]) if index < len(timelines) else 0
        pairs = []
        for window in as_list(windows, "windows of a device"):
            ends = as_list(window, "a window")
            if len(ends) != 2:
                raise MalformedError("a window is not two positions")
            begin, end = (as_int(value, "a window's end") for value in ends)
            if not begin <= end <= events:
                raise MalformedError("a window lies outside the trace")
            pairs.append((begin, end))
        result[index] = tuple(pairs)
    return result


def _ended(raw: object) -> Ended | None:
    if raw is None:
        return None
    failed = as_dict(raw, "failed")
    return Ended(
        kind=as_text(failed.get("kind"), "kind of failed"),
        text=as_text(failed.get("text"), "text of failed"),
        traceback=as_text(failed.get("traceback"), "traceback of failed"),
        out_of_memory=as_flag(failed.get("out_of_memory"), "out_of_memory of failed"),
    )


def _devices(top: Mapping[str, object], timelines: Sequence[Timeline]) -> dict[int, Columns]:
    result = {}
    for device, raw in as_dict(top.get("devices", {}), "devices").items():
        index = as_int(device, "a device")
        if index >= len(timelines):
            raise MalformedError(f"it speaks of device {index}, of which the snapshot has no trace")
        result[index] = _columns(as_dict(raw, "a device"), timelines[index])
    return result


def _columns(raw: Mapping[str, object], timeline: Timeline) -> Columns:
    events, allocs = len(timeline), len(timeline.positions(Kind.ALLOC))
    labels = _texts(raw, "labels")
    step = _runs(raw, "step", events, 1 << 31)
    if events and int(np.diff(step).min(initial=0)) < 0:
        raise MalformedError("its steps go backwards")
    return Columns(
        phase=_runs(raw, "phase", events, len(Phase)).astype(np.int8),
        step=step.astype(np.int32),
        category=_numbers(raw, "category", allocs, len(CATEGORIES)).astype(np.int8),
        label=_numbers(raw, "label", allocs, len(labels)).astype(np.int32),
        labels=labels,
        before=_before(raw, len(labels)),
    )


def _before(raw: Mapping[str, object], labels: int) -> dict[int, tuple[int, int]]:
    result = {}
    for address, numbers in as_dict(raw.get("before", {}), "before").items():
        pair = as_list(numbers, "an entry of before")
        if len(pair) != 2:
            raise MalformedError("an entry of before is not two numbers")
        category, label = (as_int(value, "an entry of before") for value in pair)
        if category >= len(CATEGORIES) or label >= labels:
            raise MalformedError("before has a number that stands for nothing")
        result[as_int(address, "an address in before")] = (category, label)
    return result


def _runs(raw: Mapping[str, object], key: str, count: int, below: int) -> NDArray[np.int64]:
    """A column that is written as [value, how often, value, how often, ...]."""
    pairs = _int64(raw, key)
    if len(pairs) % 2:
        raise MalformedError(f"{key} is not in pairs")
    values, times = pairs[::2], pairs[1::2]
    # As floats first: a sum that runs over in 64 bits would look small.
    if len(times) and (int(times.min()) < 1 or float(times.sum(dtype=np.float64)) > 2.0 * (count + 1)):
        raise MalformedError(f"{key} is not as long as the trace")
    if int(times.sum()) != count:
        raise MalformedError(f"{key} is not as long as the trace")
    return np.repeat(_within(values, key, below), times)


def _numbers(raw: Mapping[str, object], key: str, count: int, below: int) -> NDArray[np.int64]:
    values = _int64(raw, key)
    if len(values) != count:
        raise MalformedError(f"{key} is not as long as the trace has requests")
    return _within(values, key, below)


def _within(values: NDArray[np.int64], key: str, below: int) -> NDArray[np.int64]:
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= below):
        raise MalformedError(f"{key} has a number that stands for nothing")
    return values


def _int64(raw: Mapping[str, object], key: str) -> NDArray[np.int64]:
    values: list[Any] = as_list(raw.get(key), key)
    try:
        # `array` refuses fractions, text and None, which numpy would convert.
        return np.frombuffer(array("q", values), np.int64)
    except (TypeError, OverflowError):
        raise MalformedError(f"{key} is not a list of numbers") from None
