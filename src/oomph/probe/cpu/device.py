"""`Device` for the CPU: a card that every process has, and that really fails."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from oomph.errors import OomphError, UsageError
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import UNLIMITED_BYTES
from oomph.probe.cpu import accumulate, resizing
from oomph.probe.cpu.card import Card
from oomph.probe.cpu.mode import is_plain, make_mode, push, remove
from oomph.probe.cpu.snapshot import configuration, content, summary, write
from oomph.probe.cpu.storages import Storages
from oomph.probe.model import Counters
from oomph.units import format_bytes, size_given

#: How large the card is ("2GiB"); without it, as large as is asked of it.
CAPACITY = "OOMPH_CPU_CAPACITY"

_LIMIT = (
    "the device is the CPU, counted as if it were a card: memory that operators take and give back within themselves "
    "is not seen, every tensor of the process counts, data sets in memory too, and torch.compile compiles nothing"
)
_open: weakref.WeakSet[CpuDevice] = weakref.WeakSet()


class CpuDevice:
    """Counts the storages of all CPU tensors of this process as blocks of PyTorch's caching allocator, from the moment
    that it is made until `close`; tensors that are there already count from the start.

    With a capacity, a request that does not fit raises torch.OutOfMemoryError in the operator that made it, after the
    observers were told. Only operators of the thread that made it are counted as they run; what other threads made
    counts when this thread uses it.

    Raises UsageError for a capacity that is no size.
    """

    kind = "cpu"
    index = 0
    name = "CPU"

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = _capacity() if capacity_bytes is None else capacity_bytes
        self.limits: tuple[str, ...] = (_LIMIT,)
        self._card = Card(self.capacity_bytes, self._settings())
        self._storages = Storages(self._card)
        self._mode = make_mode(self._storages)
        self._thread = threading.get_ident()
        self._closed = False
        accumulate.measure()
        self._adopt()
        self._say_if_full()
        push(self._mode)
        resizing.install(self._storages)
        _open.add(self)

    def _settings(self) -> AllocatorSettings:
        import torch

        major, minor = torch.__version__.split(".")[:2]
        version = (int(major), int(minor))
        try:
            return AllocatorSettings.parse(configuration(), version)
        except OomphError as error:
            self.limits += (f"allocator settings were not followed: {error}",)
            return AllocatorSettings(torch=version)

    def _adopt(self) -> None:
        """Counts what is there: every tensor and storage that Python knows."""
        import torch

        kinds: dict[type, int] = {}
        for found in gc.get_objects():
            kind = type(found)
            what = kinds.get(kind)
            if what is None:
                is_tensor = issubclass(kind, torch.Tensor) and is_plain(kind)
                what = kinds[kind] = 1 if is_tensor else 2 if issubclass(kind, torch.UntypedStorage) else 0
            if not what:
                continue
            # Sparse tensors have no storage, and objects may be just being made or taken apart.
            with suppress(NotImplementedError, RuntimeError, ReferenceError):
                self._storages.adopt(found.untyped_storage() if what == 1 else found)

    def _say_if_full(self) -> None:
        """What was there before is counted, and cannot be refused any more."""
        there = self._card.allocator.counts.all.reserved_bytes.current
        if self.capacity_bytes is not None and there > self.capacity_bytes:
            text = (
                f"tensors that were there when the recording began need {format_bytes(there)}, more than the card's "
                f"{format_bytes(self.capacity_bytes)} ({CAPACITY}): a request for more fails until they are freed"
            )
            self.limits += (text,)

    # -- reading ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._card.begin()

    def read(self) -> Counters:
        card = self._card
        card.settle()
        counts = card.allocator.counts
        all_ = counts.all
        return Counters(
            allocated_bytes=all_.allocated_bytes.current,
            reserved_bytes=all_.reserved_bytes.current,
            active_bytes=all_.active_bytes.current,
            requested_bytes=all_.requested_bytes.current,
            inactive_split_bytes=all_.inactive_split_bytes.current,
            peak_allocated_bytes=all_.allocated_bytes.peak,
            peak_reserved_bytes=all_.reserved_bytes.peak,
            retries=counts.retries,
            ooms=counts.ooms,
        )

    def whole(self) -> Counters:
        """As `read`. Nobody else is on this card, and nothing but the allocator."""
        import msgspec

        now = self.read()
        if self.capacity_bytes is None:
            return msgspec.structs.replace(now, missing=f"a card without limit: {CAPACITY} gives it one")
        return msgspec.structs.replace(
            now,
            free_bytes=max(self.capacity_bytes - now.reserved_bytes, 0),
            total_bytes=self.capacity_bytes,
            outside_bytes=0,
            other_processes_bytes=0,
        )

    def stats(self) -> dict[str, Any]:
        return dict(self._card.stats())

    def summary(self) -> str:
        return summary(self._card.stats())

    # -- history ----------------------------------------------------------------------------------------------------

    def record_history(self, max_entries: int) -> str:
        self._card.keep_history(max_entries)
        return ""

    def dump_snapshot(self, path: Path) -> str:
        try:
            write(content(self._card, self._storages.frames_by_address()), path)
        except OSError as error:
            return f"{path}: cannot be written: {error.strerror or error}"
        return ""

    def on_out_of_memory(self, observer: Callable[[int, int, int, int], None]) -> None:
        self._card.observers.append(observer)

    def synchronize(self) -> None:
        """Nothing to wait for: operators on the CPU are done when they return."""

    def empty_cache(self) -> None:
        """As `torch.cuda.empty_cache()` would on a card."""
        self._card.empty_cache()

    def close(self) -> None:
        """Stops counting; the numbers stay as they are."""
        if self._closed:
            return
        self._closed = self._mode.closed = True
        self._card.settle()
        self._card.observers.clear()
        self._storages.forget()
        resizing.remove(self._storages)
        if threading.get_ident() == self._thread:
            remove(self._mode)


def _capacity() -> int | None:
    text = os.environ.get(CAPACITY, "").strip()
    if not text:
        return None
    size = size_given(text)
    if size is None or size >= UNLIMITED_BYTES:
        raise UsageError(f"{CAPACITY}={text} is no size: give it as 2GiB, 512MiB, or in bytes.")
    return size


def _in_child() -> None:
    """A forked child (a worker of a data loader) is no rank: it counts nothing."""
    for device in list(_open):
        device.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
