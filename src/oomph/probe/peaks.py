"""Peaks for several readers of one allocator, each as if no other ever reset them.

PyTorch has one peak for each counter. A recorder that resets it at each phase would change what the script reads, and
the script's resets would cut a phase short. So before anybody's reset, everybody else's peaks are kept; what a reader
sees is the larger of what was kept for him and what the allocator says.

`install` puts this under `torch.cuda` and `torch.accelerator`: the functions of torch._C that all of
`max_memory_allocated`, `max_memory_reserved`, `memory_stats`, `memory_stats_as_nested_dict`, `memory_summary`,
`reset_peak_memory_stats` and the deprecated ones go through (torch/cuda/memory.py, torch/accelerator/memory.py).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

Stats = dict[Any, Any]

#: The reader that stands for everything that is not oomph.
SCRIPT = "script"


_DIRECT = (
    "{} reads the allocator's peaks directly: what it reads counts from the beginning of the phase, not from the "
    "script's own last reset"
)


class _Shape:
    """Where the peaks stand in torch's nested dict: found once, because each boundary of a phase goes through them.

    `fixed` are the counters by group and pool ("allocated_bytes", "all"), `single` those without pools
    ("oversize_segments"), `loose` the groups whose pools come and go ("reserved_bytes_by_private_pools").
    """

    def __init__(self, stats: Stats) -> None:
        self.width = len(stats)
        self.fixed: list[tuple[Any, Any]] = []
        self.single: list[Any] = []
        self.loose: list[Any] = []
        for name, group in stats.items():
            if type(group) is not dict:
                continue
            if "peak" in group:
                self.single.append(name)
            elif group and all([type(inner) is dict and "peak" in inner for inner in group.values()]):
                self.fixed += [(name, pool) for pool in group]
            else:
                self.loose.append(name)

    def paths(self) -> list[tuple[Any, ...]]:
        """Where the values of `peaks` stand."""
        return [*self.fixed, *[(name,) for name in self.single]]

    def peaks(self, stats: Stats) -> list[int]:
        """Of the counters that are always there."""
        found = [stats[name][pool]["peak"] for name, pool in self.fixed]
        found += [stats[name]["peak"] for name in self.single]
        return found


class _Kept:
    """The largest peaks of one reader on one device since his last reset, without those that the allocator still has.

    What is kept of a pool that went harms nobody: its number is never used again.
    """

    def __init__(self, shape: _Shape) -> None:
        self.shape = shape
        self.peaks: list[int] = []
        self.pools: Stats = {}

    def keep(self, stats: Stats, shape: _Shape) -> None:
        """Raises what is kept to the peaks of these counters, which stand as `shape` says."""
        if shape is not self.shape:
            # Groups have come or gone: from here on, what was kept is found by name.
            for path, peak in zip(self.shape.paths(), self.peaks, strict=False):
                place = self.pools
                for name in path:
                    place = place.setdefault(name, {})
                place["peak"] = max(peak, place.get("peak", 0))
            self.shape, self.peaks = shape, []
        found = shape.peaks(stats)
        self.peaks = list(map(max, self.peaks, found)) if self.peaks else found
        for name in shape.loose:
            if stats[name]:
                _keep(stats[name], self.pools.setdefault(name, {}))

    def overlay(self, stats: Stats) -> None:
        """Raises the peaks of these counters to what is kept."""
        for path, peak in zip(self.shape.paths(), self.peaks, strict=False):
            counter: Any = stats
            for name in path:
                counter = counter.get(name, {})
            if peak > counter.get("peak", peak):
                counter["peak"] = peak
        if self.pools:
            _overlay(stats, self.pools)


class Peaks:
    """`read(device)` gives the counters as torch's nested dict, in which "peak" is a peak; `reset(device)` resets all
    peaks of the device to what is current."""

    def __init__(self, read: Callable[[int], Stats], reset: Callable[[int], None]) -> None:
        self._read = read
        self._reset = reset
        self._lock = threading.RLock()
        self._shape: _Shape | None = None
        self._kept: dict[object, dict[int, _Kept]] = {SCRIPT: {}}

    def add(self, reader: object) -> None:
        """One more reader; his peaks begin where the allocator's are now."""
        self._kept.setdefault(reader, {})

    def drop(self, reader: object) -> None:
        """The reader reads no more."""
        with self._lock:
            self._kept.pop(reader, None)

    def stats(self, reader: object, device: int) -> Stats:
        """The counters, with the peaks since this reader's last reset."""
        with self._lock:
            stats = self._read(device)
            self.raise_peaks(reader, device, stats)
            return stats

    def raise_peaks(self, reader: object, device: int, stats: Stats) -> None:
        """Puts the peaks that were kept for the reader into counters that were just read."""
        kept = self._kept.get(reader, {}).get(device)
        if kept is not None:
            kept.overlay(stats)

    def reset(self, reader: object, device: int) -> None:
        """The reader's peaks count from now on."""
        with self._lock:
            stats = self._read(device)
            shape = self._shape
            if shape is None or len(stats) != shape.width:
                shape = self._shape = _Shape(stats)
            for other, devices in self._kept.items():
                if other is not reader:
                    kept = devices.get(device)
                    if kept is None:
                        kept = devices[device] = _Kept(shape)
                    kept.keep(stats, shape)
            self._reset(device)
            self._kept.get(reader, {}).pop(device, None)

    @property
    def alone(self) -> bool:
        """Whether the script is the only reader, and sees what the allocator says."""
        return len(self._kept) == 1 and not self._kept[SCRIPT]


def _keep(stats: Stats, kept: Stats) -> None:
    for name, value in stats.items():
        if type(value) is dict:
            _keep(value, kept.setdefault(name, {}))
        elif name == "peak" and value > kept.get(name, -1):
            kept[name] = value


def _overlay(stats: Stats, kept: Stats) -> None:
    for name, value in kept.items():
        if type(value) is dict:
            inner = stats.get(name)
            if type(inner) is dict:
                _overlay(inner, value)
        elif value > stats.get(name, value):
            stats[name] = value


class Overlay:
    """`Peaks` of CUDA's allocators, put under torch. `limits` says what is not caught."""

    _READS = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
    _RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")

    def __init__(self) -> None:
        import torch

        self._owner: Any = torch._C  # noqa: SLF001 - where all of torch.cuda's readers look
        self._before: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}
        originals = {
            name: getattr(self._owner, name) for name in (*self._READS, *self._RESETS) if self._has(name)
        }
        self.peaks = Peaks(originals[self._READS[0]], originals[self._RESETS[0]])
        self.limits = _held_elsewhere(originals, self._owner)
        for name, original in originals.items():
            ours = self._reading(original) if name in self._READS else self._resetting()
            self._before[name], self._ours[name] = original, ours
            setattr(self._owner, name, ours)

    def _has(self, name: str) -> bool:
        return hasattr(self._owner, name)

    def _reading(self, original: Callable[[int], Stats]) -> Callable[[int], Stats]:
        peaks = self.peaks

        def read(device: int) -> Stats:
            stats = original(device)
            peaks.raise_peaks(SCRIPT, device, stats)
            return stats

        return read

    def _resetting(self) -> Callable[[int], None]:
        def reset(device: int) -> None:
            self.peaks.reset(SCRIPT, device)
            self.leave()

        return reset

    def leave(self) -> None:
        """Puts torch's own functions back, once nobody needs more than they say. Until then they stay covered: the
        script's peaks from before the last reset are nowhere else."""
        if not self.peaks.alone:
            return
        for name, ours in self._ours.items():
            if getattr(self._owner, name) is ours:
                setattr(self._owner, name, self._before[name])
        if _installed and _installed[0] is self:
            _installed.clear()


_installed: list[Overlay] = []


def install() -> Overlay | None:
    """The overlay of this process; None where this PyTorch has not the functions that it covers."""
    import torch

    if not _installed:
        if not all([hasattr(torch._C, names[0]) for names in (Overlay._READS, Overlay._RESETS)]):  # noqa: SLF001
            return None
        _installed.append(Overlay())
    return _installed[0]


def _held_elsewhere(originals: dict[str, Any], owner: Any) -> tuple[str, ...]:
    """A sentence for modules that hold the functions by themselves, and so read past what is put under torch."""
    wanted = {id(original): name for name, original in originals.items()}
    found: list[str] = []
    for module_name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        if module is owner or type(names) is not dict:
            continue
        found += [f"{module_name}.{key}" for key, value in list(names.items()) if id(value) in wanted]
    if not found:
        return ()
    return (_DIRECT.format(", ".join(sorted(found))),)
