"""The counters behind `torch.cuda.memory_stats()`.

Source: Stat and DeviceStats of c10/core/CachingDeviceAllocator.h and c10/cuda/CUDACachingAllocator.h; the keys are
those of `memory_stats()` in torch/cuda/memory.py.
"""

from __future__ import annotations


class Counter:
    """A number that goes up and down: now, at its highest, and all that was ever added."""

    __slots__ = ("allocated", "current", "peak")

    def __init__(self) -> None:
        self.current: int = 0
        self.peak: int = 0
        self.allocated: int = 0

    def add(self, amount: int) -> None:
        now = self.current + amount
        self.current = now
        self.allocated += amount
        if now > self.peak:
            self.peak = now

    def remove(self, amount: int) -> None:
        self.current -= amount

    def report(self) -> dict[str, int]:
        """The four numbers under PyTorch's names; what was added and is gone was freed."""
        return {
            "current": self.current,
            "peak": self.peak,
            "allocated": self.allocated,
            "freed": self.allocated - self.current,
        }


class PoolStats:
    """The counters of all pools together, of the small ones, or of the large ones. Sizes are bytes."""

    __slots__ = (
        "active",
        "active_bytes",
        "allocated_bytes",
        "allocation",
        "inactive_split",
        "inactive_split_bytes",
        "requested_bytes",
        "reserved_bytes",
        "segment",
    )

    def __init__(self) -> None:
        self.allocation: Counter = Counter()
        self.segment: Counter = Counter()
        self.active: Counter = Counter()
        self.inactive_split: Counter = Counter()
        self.allocated_bytes: Counter = Counter()
        self.reserved_bytes: Counter = Counter()
        self.active_bytes: Counter = Counter()
        self.inactive_split_bytes: Counter = Counter()
        self.requested_bytes: Counter = Counter()

    def block_taken(self, size: int, requested: int) -> None:
        """A block was handed out. Written out instead of five calls of `Counter.add`: no path is hotter."""
        counter = self.allocation
        counter.allocated += 1
        counter.current = now = counter.current + 1
        if now > counter.peak:
            counter.peak = now
        counter = self.active
        counter.allocated += 1
        counter.current = now = counter.current + 1
        if now > counter.peak:
            counter.peak = now
        counter = self.allocated_bytes
        counter.allocated += size
        counter.current = now = counter.current + size
        if now > counter.peak:
            counter.peak = now
        counter = self.active_bytes
        counter.allocated += size
        counter.current = now = counter.current + size
        if now > counter.peak:
            counter.peak = now
        counter = self.requested_bytes
        counter.allocated += requested
        counter.current = now = counter.current + requested
        if now > counter.peak:
            counter.peak = now

    def block_returned(self, size: int) -> None:
        """Its owner freed it; it may still be in use on another stream."""
        self.allocation.current -= 1
        self.allocated_bytes.current -= size

    def block_idle(self, size: int, requested: int) -> None:
        """Nobody uses it any more."""
        self.active.current -= 1
        self.active_bytes.current -= size
        self.requested_bytes.current -= requested

    def split_changed(self, count: int, size: int) -> None:
        """Free parts of segments came (positive) or went."""
        counter = self.inactive_split
        if count != 0:
            counter.current += count
            if count > 0:
                counter.allocated += count
                counter.peak = max(counter.peak, counter.current)
        counter = self.inactive_split_bytes
        counter.current += size
        if size > 0:
            counter.allocated += size
            if counter.current > counter.peak:
                counter.peak = counter.current

    def named(self) -> list[tuple[str, Counter]]:
        """The counters under PyTorch's names."""
        return [
            ("allocation", self.allocation),
            ("segment", self.segment),
            ("active", self.active),
            ("inactive_split", self.inactive_split),
            ("allocated_bytes", self.allocated_bytes),
            ("reserved_bytes", self.reserved_bytes),
            ("active_bytes", self.active_bytes),
            ("inactive_split_bytes", self.inactive_split_bytes),
            ("requested_bytes", self.requested_bytes),
        ]


class Stats:
    """Everything that is counted. `memory_stats` gives it under PyTorch's keys."""

    __slots__ = (
        "all",
        "device_allocs",
        "device_frees",
        "large",
        "ooms",
        "oversize_allocations",
        "oversize_segments",
        "rejections",
        "retries",
        "small",
        "syncs",
    )

    def __init__(self) -> None:
        self.all: PoolStats = PoolStats()
        self.small: PoolStats = PoolStats()
        self.large: PoolStats = PoolStats()
        self.oversize_allocations: Counter = Counter()
        self.oversize_segments: Counter = Counter()
        self.retries: int = 0
        self.ooms: int = 0
        self.rejections: int = 0
        self.syncs: int = 0
        self.device_allocs: int = 0
        self.device_frees: int = 0

    def counters(self) -> list[Counter]:
        """Every counter with a peak."""
        result = [self.oversize_allocations, self.oversize_segments]
        for part in (self.all, self.small, self.large):
            result += [counter for _, counter in part.named()]
        return result

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats()`: every peak becomes the current value."""
        for counter in self.counters():
            counter.peak = counter.current
