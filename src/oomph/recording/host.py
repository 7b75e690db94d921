"""This process's main memory, cheaply enough for every step: one read of /proc/self/statm."""

from __future__ import annotations

import os

from oomph.probe.model import Host

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class HostMemory:
    """Resident memory now. Where there is no /proc it is not known."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/statm", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            self._file = None

    def read(self) -> Host | None:
        """Resident bytes; None where they cannot be read."""
        if self._file is None:
            return None
        try:
            return Host(rss_bytes=int(os.pread(self._file, 128, 0).split()[1]) * _PAGE)
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Nothing is read any more."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)
