"""The script's own recording of memory history: `_record_memory_history`, `_snapshot`, `_dump_snapshot`.

What the script recorded is a window of the trace. Source: torch/cuda/memory.py, recordHistory of
c10/cuda/CUDACachingAllocator.cpp (switching it off empties the record).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oomph.memory.allocator.layout import INACTIVE, BlockState
from oomph.tracing.device.answers.state import State
from oomph.tracing.recorder.memory import ALLOC, DeviceMemory


class _History:
    """Whether the script records, and from which event on on each device."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.first: dict[int, int] | None = None
        self.metadata = ""

    def record(self, enabled: object, clear: bool) -> None:
        recorder = self.state.recorder
        if not enabled:
            self.first = None
            return
        if self.first is None or clear:
            recorder.mark_window(True)
            self.first = {index: len(memory) for index, memory in recorder.devices.items()}

    def written(self) -> None:
        if self.first is not None:
            self.state.recorder.mark_window(False)

    def snapshot(self, pool: tuple[int, int] | None = None, traces: bool = True) -> dict[str, Any]:
        """The dict that `torch._C._cuda_memorySnapshot` gives."""
        from oomph.memory.records import event_records, segment_record

        recorder = self.state.recorder
        version = recorder.settings.torch
        events: list[list[Any]] = []
        segments: list[Any] = []
        for index in range(self.state.count):
            memory = recorder.devices.get(index)
            if memory is None:
                events.append([])
                continue
            stacks = _stacks(memory)
            found = [segment for segment in memory.segments() if pool is None or segment.pool == pool]
            segments += [segment_record(one, index, version, stacks) for one in found]
            first = None if self.first is None or not traces else self.first.get(index, 0)
            if first is None:
                events.append([])
            else:
                timeline = memory.timeline().part(slice(first, None))
                frames: list[Any] = [list(stack or ()) for stack in memory.frames[first:]]
                events.append(event_records(timeline, version, frames))
        return {"segments": segments, "device_traces": events, "allocator_settings": {}}


def _stacks(memory: DeviceMemory) -> Callable[[BlockState], list[dict[str, Any]]]:
    """The stack of the allocation that a block that is held came from."""
    last = {
        address: frames
        for kind, address, frames in zip(memory.kind, memory.address, memory.frames, strict=True)
        if kind == ALLOC
    }
    return lambda block: [] if block.state == INACTIVE else list(last.get(block.address) or ())


def install(state: State) -> None:
    """History, snapshots and their metadata."""
    recorder, history = state.recorder, _History(state)

    def record(enabled: object, *arguments: object) -> None:
        # context, stacks, max_entries, clear_history, ... (torch/cuda/memory.py, _record_memory_history_impl)
        history.record(enabled, bool(arguments[3]) if len(arguments) > 3 else False)

    def record_legacy(enabled: object, *arguments: object) -> None:
        history.record(enabled, bool(arguments[4]) if len(arguments) > 4 else False)

    def snapshot(what: Any = None) -> dict[str, Any]:
        history.written()
        if isinstance(what, tuple) and tuple(what[:2]) != (0, 0):
            return history.snapshot((int(what[0]), int(what[1])), what[-1] is not False)
        return history.snapshot(None, not (isinstance(what, tuple) and what[-1] is False))

    def dump(filename: Any = "dump_snapshot.pickle", *_: object, **__: object) -> None:
        history.written()
        recorder.suppress(f"the memory snapshot {filename}")

    def set_metadata(text: str) -> None:
        history.metadata = text

    state.answer(
        _cuda_record_memory_history=record,
        _cuda_record_memory_history_legacy=record_legacy,
        _cuda_isHistoryEnabled=lambda: history.first is not None,
        _cuda_memorySnapshot=snapshot,
        _cuda_setMemoryMetadata=set_metadata,
        _cuda_getMemoryMetadata=lambda: history.metadata,
        _cuda_allocationTraceback=lambda address: None,  # noqa: ARG005 - tensors have no address here
        _cuda_attach_out_of_memory_observer=lambda observer: None,  # noqa: ARG005 - called at an OOM by the driver
    )
    state.replace(state.memory, _dump_snapshot=dump)
