"""Adds up what a composed step allocates: the peak of each phase, and what was alive at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.digest import Digest, Label, digest
from oomph.predict.sink import Template, rounded


@dataclass(frozen=True)
class SinkPeak:
    """The most of one phase. `parts` sum up to `bytes`, which is what `torch.cuda.max_memory_allocated()` would say if
    its peak had been reset when the phase began. `where` is the place that was named last before the peak."""

    bytes: int
    where: str
    parts: Mapping[Label, int]


class PeakSink:
    """A `Sink`. Playing a template costs the same whatever its length: its peak and net change are known.

    `compose=False` leaves the parts of peaks empty, which is faster: for a search that looks at numbers only.
    """

    def __init__(self, compose: bool = True) -> None:
        self._compose = compose
        self._live: dict[int, tuple[int, Label]] = {}
        self._next = 0
        self._level = 0
        self._parts: dict[Label, int] = {}
        self._phase = Phase.UNKNOWN
        self._where = ""
        self._peaks: dict[Phase, SinkPeak] = {}
        #: The most since this phase was entered, or of all its stretches if that is more.
        self._high = 0
        #: Whether what is alive now is that most and has not been written down.
        self._unwritten = False

    @property
    def current_bytes(self) -> int:
        """What is allocated now."""
        return self._level

    @property
    def current_parts(self) -> dict[Label, int]:
        """What is allocated now, by label; empty with `compose=False`."""
        return {label: size for label, size in self._parts.items() if size}

    def peaks(self) -> dict[Phase, SinkPeak]:
        """The peak of each phase, in the order in which phases were first entered."""
        self._settle()
        return dict(self._peaks)

    def phase(self, phase: Phase, where: str = "") -> None:
        """All that follows belongs to this phase. What is alive when a phase is entered counts for it."""
        self._settle()
        self._where = where
        if phase is self._phase and phase in self._peaks:
            return
        self._phase = phase
        known = self._peaks.get(phase)
        if known is None or known.bytes < self._level:
            self._high = self._level
            self._write({})
        else:
            self._high = known.bytes

    def alloc(self, size_bytes: int, category: Category, name: str, stream: int = 0) -> int:  # noqa: ARG002 - as every sink
        """A new block; returns its handle."""
        size = rounded(size_bytes)
        handle = self._next
        self._next = handle + 1
        label = (category, name)
        self._live[handle] = (size, label)
        self._level += size
        if self._compose:
            self._parts[label] = self._parts.get(label, 0) + size
        if self._level > self._high:
            self._high = self._level
            self._unwritten = True
        return handle

    def free(self, handle: int) -> None:
        """Frees a block. Raises ValueError for one that is not alive."""
        self._settle()
        size, label = self._take(handle)
        self._level -= size
        if self._compose:
            self._parts[label] -= size

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """Runs a template. Raises ValueError when a handed block that it frees is not alive, or not as large as the
        template takes it to be, and for a wrong number of handed blocks."""
        if len(handed) != template.first_own:
            raise ValueError(f"The template takes {template.first_own} blocks and was given {len(handed)}.")
        work = digest(template)
        for number in work.gone:
            known = self._live.get(handed[number])
            if known is not None and known[0] != template.sizes[number]:
                raise ValueError(
                    f"The template frees a block of {template.sizes[number]} bytes and was handed {known[0]}."
                )
        top = self._level + template.peak
        if top > self._high:
            self._high = top
            self._write(self._change_at_peak(work, handed))
        else:
            self._settle()
        self._level += template.net
        return self._after(template, work, handed)

    def _change_at_peak(self, work: Digest, handed: Sequence[int]) -> dict[Label, int]:
        if not self._compose:
            return {}
        change = dict(work.peak_parts)
        for number in work.peak_gone:
            known = self._live.get(handed[number])
            if known is not None:
                change[known[1]] = change.get(known[1], 0) - known[0]
        return change

    def _after(self, template: Template, work: Digest, handed: Sequence[int]) -> list[int]:
        """Books the blocks that a template left and freed."""
        handles = [*handed, *([-1] * (len(template.sizes) - template.first_own))]
        for number in work.gone:
            size, label = self._take(handed[number])
            handles[number] = -1
            if self._compose:
                self._parts[label] -= size
        handle = self._next
        for number in work.survivors:
            self._live[handle] = (template.sizes[number], template.labels[number])
            handles[number] = handle
            handle += 1
        self._next = handle
        if self._compose:
            for label, size in work.net_parts.items():
                self._parts[label] = self._parts.get(label, 0) + size
        return handles

    def _take(self, handle: int) -> tuple[int, Label]:
        known = self._live.pop(handle, None)
        if known is None:
            raise ValueError(f"Block {handle} is freed and is not alive.")
        return known

    def _settle(self) -> None:
        """Before anything changes that would hide what is alive at the peak."""
        if self._unwritten:
            self._write({})

    def _write(self, change: Mapping[Label, int]) -> None:
        parts = dict(self._parts)
        for label, size in change.items():
            parts[label] = parts.get(label, 0) + size
        alive = {label: size for label, size in parts.items() if size}
        self._peaks[self._phase] = SinkPeak(self._high, self._where, alive)
        self._unwritten = False
