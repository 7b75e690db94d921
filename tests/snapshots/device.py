"""One process on one device: what it asks of the allocator, and the events that PyTorch would write about it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.layout import INACTIVE
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import SMALL_BYTES, round_size, segment_size
from oomph.units import GIB
from tests.snapshots.frames import Line, Site, Stacks
from tests.snapshots.truth import Failed

DEFAULT = (0, 0)
_ACTIONS = {
    arena.SEGMENT_ALLOC: "segment_alloc",
    arena.SEGMENT_FREE: "segment_free",
    arena.SEGMENT_MAP: "segment_map",
    arena.SEGMENT_UNMAP: "segment_unmap",
}
#: Made-up addresses lie above all real ones; they are written as real ones would be.
DOWN = (1 << 56) - (1 << 47)


class OutOfMemory(Exception):  # noqa: N818 - the word that PyTorch uses
    """The script's request failed; `failed` says everything about that moment."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed)
        self.failed = failed


@dataclass(eq=False)
class Tensor:
    """A block in use. `size_bytes` is the block's, which may be more than was requested."""

    address: int
    requested_bytes: int
    size_bytes: int
    stream: int
    pool: tuple[int, int]
    category: str
    phase: str
    step: int | None
    site: Site
    context: list[dict[str, Any]] | None
    used_on: int | None = None

    @property
    def line(self) -> Line | None:
        return self.site.line


@dataclass
class Options:
    """How a recording was made. `frees`: whether a free has its own stack ("all") or that of the allocation."""

    seed: int = 0
    style: str = "all"
    frees: str = "all"
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)
    total_bytes: int = 80 * GIB
    outside_bytes: int = 0
    index: int = 0


class Device:
    """Requests and frees; `events` are what `_record_memory_history` keeps of them.

    `phase` and `step` are what the script is doing; they are noted for every event in `phases` and `steps`, and with
    them what was allocated (bytes). `made` has the block of each allocation, by the event's position;
    `retries` are the positions at which a request that was then served made PyTorch give cached memory back.
    """

    def __init__(self, options: Options, clock: Clock | None = None) -> None:
        self.options = options
        self.settings = options.settings
        self.outside_bytes = options.outside_bytes
        self.allocator = CachingAllocator(
            options.settings, self._capacity(), Driver.descending(), device_total_bytes=options.total_bytes
        )
        self.stacks = Stacks(options.style)
        self.clock = clock or Clock(options.seed)
        self.events: list[dict[str, Any]] = []
        self.phases: list[str] = []
        self.steps: list[int | None] = []
        self.allocated: list[int] = []
        self.alive: dict[int, Tensor] = {}
        self.made: dict[int, Tensor] = {}
        self.waiting: list[tuple[Tensor, Any]] = []
        self.failures: list[Failed] = []
        self.retries: list[int] = []
        self.step_positions: list[int] = []
        self.phase = "init"
        self.step: int | None = None
        self._seen = 0

    def _capacity(self) -> int:
        return self.options.total_bytes - self.outside_bytes

    def outside(self, bytes_: int) -> None:
        """From now on so much of the device is used outside PyTorch's allocator."""
        self.outside_bytes = bytes_
        self.allocator.capacity = self._capacity()

    def begin_step(self, step: int) -> None:
        self.step = step
        self.step_positions.append(len(self.events))

    def alloc(
        self, size: int, site: Site, category: str, *, stream: int = 0, pool: tuple[int, int] = DEFAULT
    ) -> Tensor:
        """A block. Raises OutOfMemory."""
        context = self.stacks.of(site)
        first = len(self.events)
        try:
            address = self.allocator.malloc(size, stream, pool)
        except DeviceOutOfMemory as error:
            self._segment_events(context, pool)
            failed = self._failed(error, site, stream, pool)
            self.failures.append(failed)
            raise OutOfMemory(failed) from None
        self._segment_events(context, pool)
        released = next((place for place in range(first, len(self.events)) if self._shrinks(place)), None)
        if released is not None:
            self.retries.append(released)
        self._write("alloc", address, size, stream, context, pool)
        block = self.allocator.active[address]
        tensor = Tensor(
            address, size, block.size, stream, pool, category, self.phase, self.step, site, context
        )
        self.alive[address] = tensor
        self.made[len(self.events) - 1] = tensor
        return tensor

    def _shrinks(self, position: int) -> bool:
        return self.events[position]["action"] in ("segment_free", "segment_unmap")

    def free(self, tensor: Tensor, site: Site | None = None) -> None:
        """Gives a block back; one that another stream uses waits for it (`synchronize`)."""
        frames = tensor.context
        if self.options.frees == "all":
            frames = self.stacks.of(site or tensor.site, "free")
        del self.alive[tensor.address]
        self._write(
            "free_requested", tensor.address, tensor.requested_bytes, tensor.stream, frames, tensor.pool
        )
        block = self.allocator.active[tensor.address]
        self.allocator.free(tensor.address)
        tensor.context = frames
        if tensor.used_on is None:
            self._completed(tensor)
        else:
            self.waiting.append((tensor, block))

    def _completed(self, tensor: Tensor) -> None:
        self._write(
            "free_completed",
            tensor.address,
            tensor.requested_bytes,
            tensor.stream,
            tensor.context,
            tensor.pool,
        )

    def record_stream(self, tensor: Tensor, stream: int) -> None:
        """The block is used on another stream too."""
        tensor.used_on = stream
        self.allocator.record_stream(tensor.address, stream)

    def synchronize(self, stream: int) -> None:
        """The stream's work is done; PyTorch notices at the next request, here at once."""
        for tensor, _ in [each for each in self.waiting if each[0].used_on == stream]:
            self.allocator.complete(tensor.address)
            self._completed(tensor)
        self.waiting = [each for each in self.waiting if each[0].used_on != stream]

    def empty_cache(self, site: Site) -> None:
        """`torch.cuda.empty_cache()` of the user's."""
        self.allocator.empty_cache()
        self._segment_events(self.stacks.of(site, "empty"), DEFAULT)

    def snapshot_event(self) -> None:
        """The mark that taking a snapshot leaves."""
        self._write("snapshot", DOWN, self.allocator.active_bytes, 0, None, DEFAULT)

    def step_peaks(self) -> list[int]:
        """The most that was allocated in each step (bytes)."""
        peaks: dict[int, int] = {}
        for step, bytes_ in zip(self.steps, self.allocated, strict=True):
            if step is not None:
                peaks[step] = max(peaks.get(step, 0), bytes_)
        return [peaks[step] for step in sorted(peaks)]

    def alive_at(self, position: int) -> dict[int, Tensor]:
        """The blocks in use after that event, by the address that the file has."""
        result: dict[int, Tensor] = {}
        for place, event in enumerate(self.events[: position + 1]):
            if event["action"] == "alloc":
                result[event["addr"]] = self.made[place]
            elif event["action"] == "free_requested":
                del result[event["addr"]]
        return result

    def alive_by_category(self) -> dict[str, int]:
        """Block bytes in use by category."""
        result: dict[str, int] = {}
        for tensor in self.alive.values():
            result[tensor.category] = result.get(tensor.category, 0) + tensor.size_bytes
        return result

    # -- what PyTorch would write ---------------------------------------------------------------------------------

    def _segment_events(self, context: list[dict[str, Any]] | None, pool: tuple[int, int]) -> None:
        """The driver's part of a request. Releasing waits for other streams first, which ends frees."""
        new = self.allocator.segment_events[self._seen :]
        self._seen += len(new)
        if self.waiting:
            active = self.allocator.active
            done = [t for t, block in self.waiting if active.get(t.address) is not block]
            for tensor in done:
                self._completed(tensor)
            self.waiting = [each for each in self.waiting if each[0] not in done]
        for kind, address, size, stream in new:
            if kind == arena.OOM:
                self._note({"action": "oom", "device_free": address, "size": size, "stream": stream}, context)
                self.events[-1]["pool_id"] = pool
            else:
                self._write(_ACTIONS[kind], address, size, stream, context, pool)

    def _write(
        self,
        action: str,
        address: int,
        size: int,
        stream: int,
        frames: list[dict[str, Any]] | None,
        pool: tuple[int, int],
    ) -> None:
        event = {
            "action": action,
            "addr": address - DOWN,
            "size": size,
            "stream": stream,
            "pool_id": pool,
        }
        self._note(event, frames)

    def _note(self, event: dict[str, Any], frames: list[dict[str, Any]] | None) -> None:
        event["time_us"] = self.clock.tick()
        if frames is not None:
            event["frames"] = frames
        self.events.append(event)
        self.phases.append(self.phase)
        self.steps.append(self.step)
        self.allocated.append(self.allocator.allocated_bytes)

    def _failed(self, error: DeviceOutOfMemory, site: Site, stream: int, pool: tuple[int, int]) -> Failed:
        rounded = round_size(error.requested_bytes, self.settings.roundup_power2_divisions)
        small = rounded <= SMALL_BYTES
        own, others = [], []
        beside: set[int] = set()
        for segment in self.allocator.layout():
            mine = (segment.small, segment.stream, segment.pool) == (small, stream, pool)
            for index, block in enumerate(segment.blocks):
                if block.state == INACTIVE:
                    (own if mine else others).append(block.size)
                    if mine:
                        beside.update(one.address for one in segment.blocks[max(0, index - 1) : index + 2])
        pins = [tensor.line for tensor in self.alive.values() if tensor.address in beside]
        reserved = self.allocator.reserved_bytes
        return Failed(
            position=len(self.events) - 1,
            request_bytes=rounded,
            segment_bytes=segment_size(rounded),
            pool=pool,
            stream=stream,
            small=small,
            holes=tuple(sorted(own, reverse=True)),
            other_holes=tuple(sorted(others, reverse=True)),
            free_bytes=self._capacity() - reserved,
            reserved_bytes=reserved,
            allocated_bytes=sum(tensor.size_bytes for tensor in self.alive.values()),
            line=site.line,
            phase=self.phase,
            step=self.step,
            categories=self.alive_by_category(),
            pins={line: pins.count(line) for line in dict.fromkeys(pins)},
        )


class Clock:
    """Microseconds, as they pass."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.now_us = 1_750_000_000_000_000 + self._chance.randrange(10**9)

    def tick(self) -> int:
        self.now_us += self._chance.randrange(1, 60)
        return self.now_us
