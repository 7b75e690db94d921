"""The accounts of the simulated card: blocks taken and given back, their peaks, and what happens when it is full."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, cast

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.layout import SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.probe.cpu.history import Frames, History
from oomph.probe.cpu.message import message

#: observer(device, request, device total, device free)
Observer: TypeAlias = Callable[[int, int, int, int], None]

# Numbers of `memory.timeline.Kind`, which needs numpy: a test holds them equal.
ALLOC, FREE_REQUESTED, FREE_COMPLETED, OOM = 0, 1, 2, 7
_KINDS = {
    arena.SEGMENT_ALLOC: 3,
    arena.SEGMENT_FREE: 4,
    arena.SEGMENT_MAP: 5,
    arena.SEGMENT_UNMAP: 6,
    arena.OOM: OOM,
}
_NO_FRAMES: Frames = []


class Block:
    """Memory that was handed out. `frames` is where, while history is kept."""

    __slots__ = ("address", "frames", "size")

    def __init__(self, address: int, size: int, frames: Frames) -> None:
        self.address = address
        self.size = size
        self.frames = frames


class Card:
    """One per process. Any thread may call; what is given back while another call is at work waits for its end,
    because a weak reference may run out in the middle of anything.
    """

    def __init__(self, capacity_bytes: int | None, settings: AllocatorSettings) -> None:
        self.allocator = CachingAllocator(settings, capacity_bytes, driver=Driver.packed(), record=False)
        self.capacity_bytes = capacity_bytes
        self.history: History | None = None
        self.observers: list[Observer] = []
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._counters = self.allocator.counts.counters()
        self._kept = [0] * len(self._counters)

    # -- blocks -----------------------------------------------------------------------------------------------------

    def take(self, size: int) -> Block:
        """A block of `size` > 0 bytes. Raises torch's OutOfMemoryError when the card is full, after telling the
        observers."""
        frames = _NO_FRAMES if self.history is None else self.history.here()
        try:
            with self._at_work(frames):
                address = self.allocator.malloc(size)
                block = Block(address, size, frames)
                self._note(ALLOC, address, size, frames)
                return block
        except DeviceOutOfMemory as error:
            failed = error
        raise self._failure(failed) from None

    def give_back(self, block: Block) -> None:
        """The owner of a block is gone."""
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    @contextmanager
    def without_limit(self) -> Iterator[None]:
        """Inside, requests beyond the capacity are served: what was there before the card is there whatever it has."""
        capacity, self.allocator.capacity = self.allocator.capacity, 1 << 61
        try:
            yield
        finally:
            self.allocator.capacity = capacity

    @contextmanager
    def _at_work(self, frames: Frames) -> Iterator[None]:
        self._lock.acquire()
        try:
            self._drain()
            yield
        finally:
            try:
                self._events(frames)
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
        returned = self._returned
        while returned:
            block = returned.popleft()
            self.allocator.free(block.address)
            if self.history is not None:
                frames = self.history.here()
                self.history.add(FREE_REQUESTED, block.address, block.size, frames)
                self.history.add(FREE_COMPLETED, block.address, block.size, frames)

    def _note(self, kind: int, address: int, size: int, frames: Frames) -> None:
        if self.history is not None:
            self._events(frames)
            self.history.add(kind, address, size, frames)

    def _events(self, frames: Frames) -> None:
        """What the allocator asked of the driver, in its order."""
        events = self.allocator.events
        if events and self.history is not None:
            for kind, address, size, _ in events:
                self.history.add(_KINDS[kind], address, size, frames)
        events.clear()

    def _failure(self, error: DeviceOutOfMemory) -> Exception:
        """The exception, the observers told."""
        import torch

        for observer in list(self.observers):
            with suppress(Exception):  # the exception that the script gets is the one about memory
                observer(0, error.segment_bytes, self.allocator.capacity, max(error.free_bytes or 0, 0))
        kind: Any = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
        return cast(Exception, kind(message(error, self.allocator)))

    # -- what it says -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Peaks count from now on; `stats` still knows the largest of all time."""
        with self._lock:
            self._drain()
            kept = self._kept
            for place, counter in enumerate(self._counters):
                if counter.peak > kept[place]:
                    kept[place] = counter.peak
                counter.peak = counter.current

    def settle(self) -> None:
        """Books what was given back in the meantime."""
        if self._returned:
            with self._lock:
                self._drain()

    def stats(self) -> dict[str, int]:
        """The keys and values of `torch.cuda.memory_stats()`; peaks since the card is there."""
        with self._lock:
            self._drain()
            counters = self._counters
            here = [counter.peak for counter in counters]
            for counter, kept in zip(counters, self._kept, strict=True):
                counter.peak = max(counter.peak, kept)
            try:
                return self.allocator.stats()
            finally:
                for counter, peak in zip(counters, here, strict=True):
                    counter.peak = peak

    def empty_cache(self) -> None:
        """As `torch.cuda.empty_cache()`."""
        with self._at_work(_NO_FRAMES if self.history is None else self.history.here()):
            self.allocator.empty_cache()

    def layout(self) -> list[SegmentState]:
        """Segments and blocks at this moment."""
        with self._lock:
            self._drain()
            return self.allocator.layout()

    def keep_history(self, max_entries: int) -> None:
        """Events are kept from now on."""
        with self._lock:
            self._drain()
            self.allocator.record = True
            self.history = History(max_entries)
