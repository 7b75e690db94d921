"""What is kept of a request that failed, before the process dies of it.

The allocator's observer comes first: the phase, the counters and the ledger are of that moment, and are on the disk
before anything that takes time (the snapshot). The exception comes later, with its message and its traceback, if it is
seen at all. When the script goes on, the failure was caught.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oomph.evidence.run.model import OOM, OomRecord, rank_name
from oomph.memory.ledger import Ledger
from oomph.units import Amount

if TYPE_CHECKING:
    from oomph.probe.base import Device
    from oomph.probe.model import Counters
    from oomph.recording.boundaries import Boundaries

#: Failures of which everything is kept. Of later ones (a search for the batch size, cuDNN's for a workspace) there is a
#: record each, and the files of the last: the one that ends the job must have them.
MOST_KEPT = 3
_WRITTEN_OVER = "its files were kept until the next failure"
#: An exception that comes so much later is not the one of the request that the observer told of.
_TOGETHER_SECONDS = 60.0
_MARK = "_oomph_seen"
_OURS = str(Path(__file__).resolve().parents[1]) + os.sep


class Failures:
    """The failed requests of one rank."""

    def __init__(
        self,
        device: Device,
        phases: Boundaries,
        rank: int,
        directory: Path | None,
        write: Callable[[OomRecord], None],
        complain: Callable[[str], None],
    ) -> None:
        self._device = device
        self._phases = phases
        self._rank = rank
        self._directory = directory
        self._write = write
        self._complain = complain
        self._count = 0
        self._busy = threading.local()
        #: The last failure that nothing is known to have caught.
        self.open: OomRecord | None = None
        self.last: OomRecord | None = None
        self._matched = True

    def observed(self, _device: int, request: int, total: int, free: int) -> None:
        """PyTorch's observer: a request has failed, and its exception comes next."""
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._begin("", request, total, free)
            self._matched = False
        except Exception as error:  # noqa: BLE001 - called from inside of PyTorch's allocator
            self._complain(
                f"a failed request could not be recorded: {type(error).__name__}: {str(error)[:200]}"
            )
        finally:
            self._busy.now = False

    def raised(self, error: BaseException) -> None:
        """An exception was seen on its way up; it may be one of memory, and may have been seen before."""
        out = out_of_memory(error)
        if out is None or getattr(out, _MARK, False):
            return
        with contextlib.suppress(Exception):
            # A mark on it, not a reference to it: that would keep its frames alive, and their tensors with them.
            setattr(out, _MARK, True)
        text = str(out)
        recent = self.open is not None and time.monotonic() - self.open.clock < _TOGETHER_SECONDS
        if self.open is None or self._matched or not recent:
            self._begin(text, None, None, None)
        self._matched = True
        assert self.open is not None
        files = self._traceback(out)
        self.open = msgspec.structs.replace(
            self.open, message=text[:20_000], files=tuple(dict.fromkeys((*self.open.files, *files)))
        )
        self._write(self.open)
        self._json(self.open, None)

    def went_on(self) -> None:
        """The script trains on: the last failure was caught."""
        if self.open is not None:
            caught = msgspec.structs.replace(self.open, caught=True)
            if self._count > MOST_KEPT:
                caught = msgspec.structs.replace(caught, files=(), missing=(*caught.missing, _WRITTEN_OVER))
            self._write(caught)
            self.open = None

    def _begin(self, message: str, request: int | None, total: int | None, free: int | None) -> None:
        if self.open is not None:
            self.went_on()
        now = self._phases.current()
        counters = self._device.whole()
        if total:
            counters = msgspec.structs.replace(counters, total_bytes=total, free_bytes=free)
        record = OomRecord(
            phase=now.phase,
            step=now.step,
            time=time.time(),
            clock=time.monotonic(),
            message=message[:20_000],
            request_bytes=request,
            counters=counters,
            where=now.where,
            batch=self._phases.current_batch(),
        )
        self._count += 1
        self.open = self.last = record
        self._write(record)
        files, missing = self._keep(record)
        self.open = self.last = msgspec.structs.replace(record, files=files, missing=missing)
        self._write(self.open)

    # -- files ---------------------------------------------------------------------------------------------

    def _folder(self) -> Path | None:
        if self._directory is None:
            return None
        return self._directory / OOM / rank_name(self._rank)

    def _name(self, stem: str, ending: str) -> str:
        if self._count == 1:
            return f"{stem}.{ending}"
        return f"{stem}-{self._count if self._count <= MOST_KEPT else 'last'}.{ending}"

    def _keep(self, record: OomRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
        folder = self._folder()
        if folder is None:
            return (), ("snapshot, summary, stats: no folder",)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return (), (f"{folder}: {error.strerror or error}",)
        files: list[str] = []
        missing: list[str] = []
        names = (
            ("oom", "json"),
            ("traceback", "txt"),
            ("summary", "txt"),
            ("stats", "json"),
            ("snapshot", "pickle"),
        )
        makers: tuple[Callable[[Path], str], ...] = (
            lambda _path: self._json(record, missing),
            lambda path: _write_text(path, stacks()),
            lambda path: _write_text(path, self._device.summary()),
            lambda path: _write_text(path, json.dumps(self._device.stats(), indent=1, default=str)),
            self._device.dump_snapshot,
        )
        for (stem, ending), make in zip(names, makers, strict=True):
            name = self._name(stem, ending)
            try:
                why = make(folder / name)
            except Exception as error:  # noqa: BLE001 - each file by itself; the others are wanted the more
                why = f"{type(error).__name__}: {str(error)[:200]}"
            if why:
                missing.append(f"{name}: {why}")
            else:
                files.append(name)
        return tuple(files), tuple(missing)

    def _json(self, record: OomRecord, missing: list[str] | None) -> str:
        folder = self._folder()
        if folder is None:
            return "no folder"
        content = {
            "version": 1,
            "rank": self._rank,
            **msgspec.to_builtins(record),
            "ledger": ledger_of(record),
            "allocated_bytes": record.counters.allocated_bytes,
        }
        if missing:
            content["missing"] = missing
        return _write_text(folder / self._name("oom", "json"), json.dumps(content, indent=1))

    def _traceback(self, error: BaseException) -> tuple[str, ...]:
        folder = self._folder()
        if folder is None:
            return ()
        name = self._name("traceback", "txt")
        try:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            return () if _write_text(folder / name, text) else (name,)
        except Exception:  # noqa: BLE001 - an exception may have a __str__ that raises
            return ()


def ledger_of(record: OomRecord) -> dict[str, Any]:
    """Where every byte of the card was (`memory.ledger`), with what follows from it."""
    counters: Counters = record.counters
    printed = {
        "capacity_bytes": counters.total_bytes,
        "free_bytes": counters.free_bytes,
        "other_processes_bytes": counters.other_processes_bytes,
        "outside_bytes": counters.outside_bytes,
        "reserved_bytes": counters.reserved_bytes,
        "allocated_bytes": counters.allocated_bytes,
        # The observer is told what the driver was asked for: the segment, not the tensor.
        "segment_bytes": record.request_bytes,
    }
    known = {name: Amount(size) for name, size in printed.items() if size is not None}
    ledger = Ledger.build(dict(known))
    return {
        field.name: getattr(ledger, field.name)
        for field in dataclasses.fields(Ledger)
        if field.name.endswith("_bytes") and isinstance(getattr(ledger, field.name), int)
    }


def out_of_memory(error: BaseException | None) -> BaseException | None:
    """The exception itself, or one that it was raised from, where it is one of memory on a device."""
    for _ in range(8):
        if error is None:
            return None
        if type(error).__name__ == "OutOfMemoryError" or (
            isinstance(error, RuntimeError) and _says_so(str(error))
        ):
            return error
        error = error.__cause__
    return None


def _says_so(text: str) -> bool:
    return "out of memory" in text[:2_000] or "CUBLAS_STATUS_ALLOC_FAILED" in text[:2_000]


def stacks() -> str:
    """Where each thread is, this one first (the observer may be called in autograd's own thread, without frames)."""
    frames = sys._current_frames()  # noqa: SLF001 - the only way to another thread's stack
    mine = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident in sorted(frames, key=lambda one: one != mine):
        name = names.get(ident, "?")
        if name.startswith("oomph"):
            continue
        frames_there = traceback.extract_stack(frames[ident])
        while frames_there and os.path.realpath(frames_there[-1].filename).startswith(_OURS):
            frames_there.pop()
        text = "".join(frames_there.format())
        parts.append(f"Thread {name} (most recent call last):\n{text}")
    return "\n".join(parts)


def _write_text(path: Path, text: str) -> str:
    try:
        path.write_text(text, "utf-8", errors="backslashreplace")
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    return ""
