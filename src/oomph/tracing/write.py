"""A trace as a file: a PyTorch memory snapshot, which PyTorch's own viewer opens, with what only a trace knows beside
it under the key "oomph"."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from oomph.errors import OomphError, UsageError
from oomph.memory.allocator.layout import INACTIVE, BlockState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import DIVISION_BUCKETS
from oomph.memory.records import PICKLE_PROTOCOL, event_records, segment_record
from oomph.memory.timeline import DEFAULT_POOL, Kind, Timeline
from oomph.tracing.model import Exact, Trace, TracedDevice

#: The version of what stands under "oomph".
SCHEMA_VERSION = 1
#: The format of the rest: that of PyTorch 2.13, whichever version the trace speaks for.
_FORMAT = (2, 13)

Record = dict[str, Any]


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Writes the trace to `path`, whole or not at all. Raises UsageError where that cannot be written."""
    target = Path(path)
    temporary = target.with_name(f".oomph-{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            pickle.dump(content(trace), stream, protocol=PICKLE_PROTOCOL)
        temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def window(trace: Trace, device: int = 0) -> Timeline | None:
    """The part of a device's timeline that the script recorded itself with torch's memory history: the last such
    window, since a new one begins an empty record. None where it recorded none."""
    found = trace.windows.get(device)
    timeline = next((one.timeline for one in trace.devices if one.index == device), None)
    if not found or timeline is None:
        return None
    begin, end = found[-1]
    return timeline.part(slice(begin, end))


def content(trace: Trace) -> Record:
    """What is pickled: numbers, text, lists, dicts and tuples, nothing else."""
    count = 1 + max((device.index for device in trace.devices), default=-1)
    traces: list[list[Record]] = [[] for _ in range(count)]
    segments: list[Record] = []
    for device in trace.devices:
        lists = _Lists(device.timeline)
        traces[device.index] = event_records(_with_pools(device.timeline), _FORMAT, lists.of_events)
        last = _last_allocs(device.timeline)

        def frames_of(block: BlockState, lists: _Lists = lists, last: dict[int, int] = last) -> list[Record]:
            known = last.get(block.address) if block.state != INACTIVE else None
            return [] if known is None else lists.of_events[known]

        segments += [segment_record(segment, device.index, _FORMAT, frames_of) for segment in device.segments]
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": _settings(trace),
        "external_annotations": [],
        "oomph": _more(trace),
    }


def _more(trace: Trace) -> Record:
    """What stands under "oomph"."""
    failed = trace.failed
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "trace",
        "gpu": trace.gpu,
        "torch": trace.torch,
        "installed_torch": trace.installed_torch,
        "rank": trace.rank,
        "world": trace.world,
        "capacity_bytes": trace.capacity_bytes,
        "steps_done": trace.steps_done,
        "operators": trace.operators,
        "seconds": float(trace.seconds),
        "windows": {
            device: [[begin, end] for begin, end in windows] for device, windows in trace.windows.items()
        },
        "suppressed": list(trace.suppressed),
        "unruled": {operator: list(numbers) for operator, numbers in trace.unruled.items()},
        "uncertain_bytes": trace.uncertain_bytes,
        "assumptions": list(trace.assumptions),
        "notes": list(trace.notes),
        "failed": None
        if failed is None
        else {
            "kind": failed.kind,
            "text": failed.text,
            "traceback": failed.traceback,
            "out_of_memory": failed.out_of_memory,
        },
        "devices": {device.index: _columns(device) for device in trace.devices},
    }


def _columns(device: TracedDevice) -> Record:
    exact: Exact = device.exact
    return {
        "phase": _runs(exact.phase),
        "step": _runs(exact.step),
        "category": list(map(int, exact.category)),
        "label": list(map(int, exact.label)),
        "labels": list(exact.labels),
    }


def _runs(values: Iterable[int]) -> list[int]:
    """Runs of equal values as [value, how often, value, how often, ...]: phases and steps change seldom."""
    runs: list[int] = []
    for value in values:
        if runs and runs[-2] == value:
            runs[-1] += 1
        else:
            runs += (int(value), 1)
    return runs


class _Lists:
    """The stacks of a timeline as lists; equal lists stay one, so that the file has each once."""

    def __init__(self, timeline: Timeline) -> None:
        known: dict[int, list[Record]] = {}
        raw: Sequence[Sequence[object] | None] = timeline.frame_lists or [None] * len(timeline)
        self.of_events: list[list[Record]] = []
        nothing: list[Record] = []
        for frames in raw:
            if not frames:
                self.of_events.append(nothing)
                continue
            found = known.get(id(frames))
            if found is None:
                found = known[id(frames)] = list(frames)  # type: ignore[arg-type]
            self.of_events.append(found)


def _with_pools(timeline: Timeline) -> Timeline:
    """With the default pool where no event names one: PyTorch 2.13 names it in all of them."""
    if timeline.pools:
        return timeline
    return replace(timeline, pool=timeline.pool * 0, pools=(DEFAULT_POOL,))


def _last_allocs(timeline: Timeline) -> dict[int, int]:
    """By address, the position of the last request that was served there."""
    positions = timeline.positions(Kind.ALLOC)
    return dict(zip(timeline.address[positions].tolist(), positions.tolist(), strict=True))


def _settings(trace: Trace) -> Record:
    """`allocator_settings` as PyTorch 2.13 writes them. Source: Module.cpp (THCPModule_memorySnapshot)."""
    try:
        settings = AllocatorSettings.parse(trace.allocator)
    except OomphError:
        settings = AllocatorSettings()
    split = settings.max_split_size_bytes
    divisions = settings.roundup_power2_divisions or (0,) * DIVISION_BUCKETS
    return {
        "PYTORCH_CUDA_ALLOC_CONF": trace.allocator,
        "max_split_size": -1 if split is None else split,
        "garbage_collection_threshold": float(settings.garbage_collection_threshold),
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {
            str(1 << bucket): divisions[bucket] for bucket in range(DIVISION_BUCKETS)
        },
        "graph_capture_record_stream_reuse": False,
    }
