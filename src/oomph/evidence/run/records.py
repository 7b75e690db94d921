"""Records from lines: what is torn, unknown or hostile costs that record and no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from oomph.evidence.run.model import GpuSample, Record
from oomph.phases import Phase

T = TypeVar("T")

#: No record is longer; a longer line is passed over without being held.
MOST_LINE_BYTES = 8 << 20
#: Beyond these nothing was measured: a few thousand years, and a thousand times the largest machines.
_MOST_SECONDS = 1e11
_MOST_BYTES = 1 << 60
_KNOWN_TAGS = frozenset({"header", "phase", "step", "oom", "note", "end"})
_PHASES = frozenset(phase.value for phase in Phase)
_RECORD: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_GPU: msgspec.json.Decoder[GpuSample] = msgspec.json.Decoder(GpuSample)
_ERRORS = (msgspec.DecodeError, ValueError, RecursionError, OverflowError, UnicodeDecodeError)


@dataclass
class Lines(Generic[T]):
    """Reads a file of records. `damaged` and `unknown` count what was passed over, `torn` says that the last line is
    not whole (its writer was killed, or is writing). `number` is the line that was read last, from 1."""

    file: BinaryIO
    number: int = 0
    damaged: int = 0
    unknown: int = 0
    torn: bool = False
    error: str = ""

    def records(self) -> Iterator[Record]:
        """Each record of a rank's file."""
        for line in self._lines():
            record = self._record(line)
            if record is not None:
                yield record

    def gpu_samples(self) -> Iterator[GpuSample]:
        """Each sample of a host's file."""
        for line in self._lines():
            try:
                yield _GPU.decode(line)
            except _ERRORS:
                self._passed_over(line)

    def _passed_over(self, line: bytes) -> None:
        if line.endswith(b"\n"):
            self.damaged += 1
        else:
            self.torn = True

    def _lines(self) -> Iterator[bytes]:
        try:
            while line := self.file.readline(MOST_LINE_BYTES):
                self.number += 1
                if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
                    self.damaged += 1
                    while rest := self.file.readline(MOST_LINE_BYTES):
                        if rest.endswith(b"\n"):
                            break
                    continue
                if line.strip(b"\0 \t\r\n"):  # a crash of the host may leave zeros at the end
                    yield line
        except OSError as error:
            self.error = error.strerror or str(error)

    def _record(self, line: bytes) -> Record | None:
        try:
            found = _RECORD.decode(line)
            if not _possible(found):
                self.damaged += 1
                return None
            return found
        except _ERRORS:
            pass
        try:
            plain = msgspec.json.decode(line)
        except _ERRORS:
            self._passed_over(line)
            return None
        if isinstance(plain, dict):
            tag = plain.get("type")
            if isinstance(tag, str) and tag not in _KNOWN_TAGS:
                self.unknown += 1
                return None
            again = _with_known_phase(plain)
            if again is not None:
                return again
        self.damaged += 1
        return None


def _possible(record: Record) -> bool:
    """No size is negative, and no card, process or clock has what such numbers say. Of counters, what PyTorch's
    allocator counts is looked at: what others have is a difference, which may be a little below zero."""
    times = (record.time, record.clock, getattr(record, "seconds", 0.0))
    if not all(abs(each) < _MOST_SECONDS for each in times):
        return False
    counters = getattr(record, "counters", None)
    return counters is None or (
        0 <= counters.allocated_bytes < _MOST_BYTES
        and 0 <= counters.reserved_bytes < _MOST_BYTES
        and 0 <= counters.peak_allocated_bytes < _MOST_BYTES
        and 0 <= counters.peak_reserved_bytes < _MOST_BYTES
    )


def _with_known_phase(plain: dict[Any, Any]) -> Record | None:
    """A record whose phase a newer oomph has invented."""
    phase = plain.get("phase")
    if not isinstance(phase, str) or phase in _PHASES:
        return None
    try:
        again: Record = msgspec.convert({**plain, "phase": "unknown"}, Record)
        return again
    except _ERRORS:
        return None
