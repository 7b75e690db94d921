"""This process's main memory, cheaply enough for every step: one read of /proc/self/statm.

What costs more is read now and then: pinned memory every second, and the host's own memory and limits every ten.
"""

from __future__ import annotations

import os
import time

from oomph.probe.model import Host

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PINNED_SECONDS, _WHOLE_SECONDS = 1.0, 10.0


class HostMemory:
    """Resident memory now. Where there is no /proc, only what the slower reading finds."""

    def __init__(self) -> None:
        self._pinned: int | None = None
        self._pinned_at = self._whole_at = float("-inf")
        try:
            self._file: int | None = os.open("/proc/self/statm", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            self._file = None

    def read(self) -> Host | None:
        """This process's memory; None where nothing can be read."""
        now = time.monotonic()
        if now - self._whole_at >= _WHOLE_SECONDS:
            from oomph.probe.host import host

            self._whole_at = self._pinned_at = now
            whole = host()
            self._pinned = whole.pinned_bytes
            return whole
        if self._file is None:
            return None
        if now - self._pinned_at >= _PINNED_SECONDS:
            from oomph.probe.host import pinned_bytes

            self._pinned_at, self._pinned = now, pinned_bytes()
        try:
            resident = int(os.pread(self._file, 128, 0).split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return None
        return Host(rss_bytes=resident, pinned_bytes=self._pinned)

    def close(self) -> None:
        """Nothing is read any more."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)
