"""A part of a snapshot as a snapshot: a window of events, and the segments as they were at its end.

The dict is what PyTorch writes in the same format (docs/snapshots.md, "Reading"), so its own viewer opens it. What
oomph does not keep of an event (`compile_context`, `user_metadata`) has the value that PyTorch gives when there is
none.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oomph.errors import OomphError
from oomph.memory.allocator.layout import INACTIVE, BlockState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.records import PICKLE_PROTOCOL, event_records, segment_record
from oomph.memory.stacks import Frame
from oomph.memory.timeline import UNKNOWN
from oomph.report.exports.exactly import Ends, exactly
from oomph.report.exports.names import Names
from oomph.report.exports.target import replacing
from oomph.report.exports.traced import texts_of, traced_part
from oomph.report.exports.window import around_the_moment, chosen

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Text that PyTorch adds to frames of FX graphs (augment_with_fx_traces).
_FX_KEYS = ("fx_node_op", "fx_node_name", "fx_original_trace")


def write_smaller(
    target: Path,
    analysis: Analysis,
    *,
    first: int | None = None,
    last: int | None = None,
    redact: bool = False,
) -> None:
    """Writes the events from `first` up to, not including, `last` as a snapshot of its own; without both
    `around_the_moment`. See `exports.export`."""
    if first is None and last is None:
        begin, end = around_the_moment(analysis)
    else:
        begin, end = chosen(analysis, first, last)
    content = smaller(analysis, exactly(analysis, begin, end), redact=redact)
    with replacing(target) as stream:
        pickle.dump(content, stream, protocol=PICKLE_PROTOCOL)


def smaller(analysis: Analysis, ends: Ends, *, redact: bool = False) -> dict[str, Any]:
    """The snapshot of a window of one device, as the dict that PyTorch pickles. Other devices are left empty."""
    return _Cut(analysis, ends, redact).content()


class _Cut:
    def __init__(self, analysis: Analysis, ends: Ends, redact: bool) -> None:
        self._analysis = analysis
        self._timeline = analysis.timeline
        self._era = analysis.snapshot.era.torch
        self._first = ends.first
        self._last = ends.last
        self._layout = ends.layout
        self._stacks = self._timeline.stack_ids(range(ends.first, ends.last)).tolist()
        self._block_stacks = self._stacks_of_blocks()
        self._annotations = self._within()
        numbers = {*self._stacks, *self._block_stacks.values()}
        frames = {frame for number in numbers for frame in analysis.frames(number)}
        self._names = Names(
            redact=redact,
            source=analysis.snapshot.source,
            frames=frames,
            others=[
                *(annotation["name"] for annotation in self._annotations),
                *texts_of(analysis.snapshot.traced),
            ],
            keep_paths=True,
        )
        self._redact = redact
        self._frames: dict[Frame, dict[str, Any]] = {}
        self._lists: dict[int, list[dict[str, Any]]] = {}

    def content(self) -> dict[str, Any]:
        analysis = self._analysis
        events = self._events()
        content: dict[str, Any] = {
            "segments": [
                segment_record(segment, analysis.index, self._era, self._frames_of)
                for segment in self._layout
            ],
            "device_traces": [[] for _ in range(analysis.index)] + [events],
        }
        if self._era >= (2, 4):
            content["allocator_settings"] = self._settings()
        if self._era >= (2, 6):
            for annotation in self._annotations:
                annotation["name"] = self._names.text(annotation["name"])
            content["external_annotations"] = self._annotations
        if self._era >= (2, 14):
            content.update(host_segments=[], host_traces=[])
        traced = traced_part(analysis, self._first, self._last, self._names)
        if traced is not None:
            content["oomph"] = traced
        return content

    # -- events -----------------------------------------------------------------------------------------------------

    def _events(self) -> list[dict[str, Any]]:
        raw = self._timeline.frame_lists
        frames = None
        if raw is not None:
            frames = [
                self._list(number) if number in self._lists else self._list(number, raw[position])
                for position, number in enumerate(self._stacks, self._first)
            ]
        return event_records(self._timeline.part(slice(self._first, self._last)), self._era, frames)

    # -- stacks -----------------------------------------------------------------------------------------------------

    def _list(self, number: int, raw: object = None) -> list[dict[str, Any]]:
        """A stack as a list of dicts; equal stacks are one list, equal frames one dict, as PyTorch has them. `raw` is
        the list in the file, for what it knows besides."""
        known = self._lists.get(number)
        if known is None:
            frames = self._analysis.frames(number)
            others = (
                raw if isinstance(raw, list | tuple) and len(raw) == len(frames) else [None] * len(frames)
            )
            known = [self._frame(frame, other) for frame, other in zip(frames, others, strict=True)]
            self._lists[number] = known
        return known

    def _frame(self, frame: Frame, raw: object) -> dict[str, Any]:
        known = self._frames.get(frame)
        if known is None:
            shown = self._names.frame(frame)
            known = {"name": shown.function, "filename": shown.file, "line": frame.line}
            for key in _FX_KEYS:
                value = raw.get(key) if isinstance(raw, dict) else None
                if isinstance(value, str):
                    known[key] = self._names.lines(value)
            self._frames[frame] = known
        return known

    def _stacks_of_blocks(self) -> dict[int, int]:
        """By address, the stack of each block that is in use at the end of the window."""
        analysis, lives = self._analysis, self._analysis.lifetimes
        rows = np.flatnonzero((lives.born < self._last) & (lives.done >= self._last))
        found = dict(zip(lives.address[rows].tolist(), analysis.block_stack[rows].tolist(), strict=True))
        return {address: number for address, number in found.items() if number >= 0}

    # -- segments ---------------------------------------------------------------------------------------------------

    def _frames_of(self, block: BlockState) -> list[dict[str, Any]]:
        number = self._block_stacks.get(block.address, -1) if block.state != INACTIVE else -1
        return self._list(number)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        snapshot = self._analysis.snapshot
        result = _plain(snapshot.conf)
        if snapshot.conf_text is not None:
            # PyTorch's own words are kept from the redaction, which would take "name:128" for a machine's.
            known = not self._redact or _is_known(snapshot.conf_text, self._era)
            result["PYTORCH_CUDA_ALLOC_CONF"] = snapshot.conf_text if known else ""
        return result

    def _within(self) -> list[dict[str, Any]]:
        """Annotations of this device in the window's time, and the beginnings of those that were open before."""
        times = self._timeline.time_us[self._first : self._last]
        times = times[times != UNKNOWN]
        if not len(times):
            return []
        begin, end = int(times.min()), int(times.max())
        kept: list[dict[str, Any]] = []
        opened: dict[str, list[dict[str, Any]]] = {}
        for annotation in self._analysis.snapshot.annotations:
            if annotation.device != self._analysis.index or annotation.time_us > end:
                continue
            record = {
                "name": annotation.name,
                "stage": annotation.stage,
                "device": annotation.device,
                "time_us": annotation.time_us,
            }
            if annotation.time_us >= begin:
                kept.append(record)
            elif annotation.stage == "START":
                opened.setdefault(annotation.name, []).append(record)
            elif opened.get(annotation.name):
                opened[annotation.name].pop()
        before = [record for records in opened.values() for record in records]
        return sorted(before, key=lambda record: int(record["time_us"])) + kept


def _plain(conf: Mapping[str, object]) -> dict[str, Any]:
    """Numbers, switches, and dicts of numbers by name: all that PyTorch has there."""
    result: dict[str, Any] = {}
    for key, value in conf.items():
        if isinstance(value, (bool, int, float)):
            result[key] = value
        elif isinstance(value, dict):
            result[key] = {
                name: number
                for name, number in value.items()
                if isinstance(name, str) and isinstance(number, int)
            }
    return result


def _is_known(text: str, torch: tuple[int, int]) -> bool:
    """Whether PyTorch accepts the settings, so that there is nothing else in them."""
    try:
        AllocatorSettings.parse(text, torch=torch)
    except OomphError:
        return False
    return True
