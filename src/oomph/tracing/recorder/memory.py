"""One simulated device: its allocator, and every event in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.tracing.recorder.blocks import Block
from oomph.tracing.settings import TraceSettings

if TYPE_CHECKING:
    from oomph.memory.allocator.layout import SegmentState
    from oomph.memory.timeline import Timeline

# Numbers of `memory.timeline.Kind`, which needs numpy: tests hold them equal.
ALLOC, FREE_REQUESTED, FREE_COMPLETED, OOM = 0, 1, 2, 7
_KINDS = {
    arena.SEGMENT_ALLOC: 3,
    arena.SEGMENT_FREE: 4,
    arena.SEGMENT_MAP: 5,
    arena.SEGMENT_UNMAP: 6,
    arena.OOM: OOM,
}

Frames = list[dict[str, object]]


class DeviceMemory:
    """The memory of one device. Every call is one allocator operation; its events are appended to the columns, with
    the phase and the step that `now` names (a list [phase, step], shared by all devices of the process).

    `allocs` has what is known of each ALLOC event, by `Block.number`.
    """

    def __init__(self, index: int, settings: TraceSettings, now: list[int]) -> None:
        self.index = index
        self.allocator = CachingAllocator(
            settings.allocator,
            settings.capacity_bytes,
            driver=Driver.packed(),
            device_total_bytes=settings.device_bytes,
        )
        self.now = now
        self.kind: list[int] = []
        self.address: list[int] = []
        self.size: list[int] = []
        self.stream: list[int] = []
        self.frames: list[Frames | None] = []
        self.phase: list[int] = []
        self.step: list[int] = []
        self.free_bytes: dict[int, int] = {}
        self.allocs: list[Block] = []
        self.windows: list[tuple[int, int]] = []
        self._pending: dict[int, tuple[Block, int]] = {}

    def __len__(self) -> int:
        return len(self.kind)

    def alloc(self, size: int, stream: int, frames: Frames | None, pool: tuple[int, int] = (0, 0)) -> Block:
        """A block of `size` > 0 bytes. Raises DeviceOutOfMemory when the card is full."""
        allocator = self.allocator
        try:
            address = allocator.malloc(size, stream, pool)
        except DeviceOutOfMemory:
            self._drain(frames)
            self._complete(frames)
            raise
        if self._pending:
            self._complete(frames)
        if allocator.events:
            self._drain(frames)
        self._event(ALLOC, address, size, stream, frames)
        block = Block(self.index, address, size, stream, len(self.allocs), self.now[0])
        self.allocs.append(block)
        return block

    def free(self, block: Block, frames: Frames | None) -> None:
        """The owner gives a block back."""
        allocator = self.allocator
        allocator.free(block.address)
        self._event(FREE_REQUESTED, block.address, block.size, block.stream, frames)
        if block.address in allocator.active:
            self._pending[block.address] = (block, len(self.kind) - 1)
        else:
            self._event(FREE_COMPLETED, block.address, block.size, block.stream, frames)

    def complete(self, stream: int | None, frames: Frames | None = None) -> None:
        """The work of a stream (None: of all) is done; what waited for it is free at the next request."""
        self.allocator.complete_events(stream)
        self._complete(frames)

    def complete_before(self, position: int, frames: Frames | None = None) -> None:
        """Whatever was freed before the event number `position` is not used by any stream any more."""
        done = [address for address, (_, freed) in self._pending.items() if freed < position]
        for address in done:
            block = self.allocator.active.get(address)
            if block is not None and not block.allocated:
                self.allocator.complete(address)
        if done:
            self._complete(frames)

    def empty_cache(self, frames: Frames | None) -> None:
        """As `torch.cuda.empty_cache()`."""
        self.allocator.empty_cache()
        self._complete(frames)
        self._drain(frames)

    def _complete(self, frames: Frames | None) -> None:
        active = self.allocator.active
        done = [address for address in self._pending if address not in active or active[address].allocated]
        for address in done:
            block, _ = self._pending.pop(address)
            self._event(FREE_COMPLETED, address, block.size, block.stream, frames)

    def _drain(self, frames: Frames | None) -> None:
        for kind, address, size, stream in self.allocator.events:
            if kind == arena.OOM:
                self.free_bytes[len(self.kind)] = address
                address = 0
            self._event(_KINDS[kind], address, size, stream, frames)
        self.allocator.events.clear()

    def _event(self, kind: int, address: int, size: int, stream: int, frames: Frames | None) -> None:
        self.kind.append(kind)
        self.address.append(address)
        self.size.append(size)
        self.stream.append(stream)
        self.frames.append(frames)
        self.phase.append(self.now[0])
        self.step.append(self.now[1])

    # -- results --------------------------------------------------------------------------------------------------

    def timeline(self) -> Timeline:
        """All events so far."""
        import numpy as np

        from oomph.memory.timeline import UNKNOWN, Timeline

        return Timeline(
            kind=np.array(self.kind, np.int8),
            address=np.array(self.address, np.int64),
            size_bytes=np.array(self.size, np.int64),
            time_us=np.full(len(self.kind), UNKNOWN, np.int64),
            stream=np.array(self.stream, np.int64),
            pool=np.full(len(self.kind), UNKNOWN, np.int32),
            free_bytes=dict(self.free_bytes),
            frame_lists=list(self.frames),
        )

    def segments(self) -> tuple[SegmentState, ...]:
        """The layout now."""
        return tuple(self.allocator.layout())
