"""What the NVIDIA driver wrote into the kernel's log, where it may be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Untold, under

#: The kernel's ring holds some hundred thousand records at most.
_RECORDS = 1_000_000
#: A record with its dictionary is smaller than this (printk's CONSOLE_EXT_LOG_MAX is 8192).
_RECORD = 8192


def driver_lines(root: Path = ROOT) -> tuple[str, ...] | Untold:
    """The lines of the driver ("NVRM: ..."), each behind its time as dmesg prints it: seconds since the machine
    started. Reading takes nothing away."""
    path = under(root, "/dev/kmsg")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return Untold(
            "the kernel's log is not here (/dev/kmsg): `sudo dmesg | grep -i xid` on the host tells them"
        )
    except OSError as error:
        return Untold(
            f"the kernel's log may not be read ({error.strerror}): `sudo dmesg | grep -i xid` tells them"
        )
    try:
        lines = [line for line in _records(descriptor) if "NVRM" in line]
    except OSError as error:
        return Untold(
            f"the kernel's log may not be read ({error.strerror}): `sudo dmesg | grep -i xid` tells them"
        )
    finally:
        os.close(descriptor)
    return tuple(lines)


def _records(descriptor: int) -> Iterator[str]:
    """Of the device each read gives one record, "6,339,5140900,-;text" with continuation lines behind a blank."""
    rest = b""
    for _ in range(_RECORDS):
        try:
            data = os.read(descriptor, _RECORD)
        except BlockingIOError:  # its end, for now
            break
        except BrokenPipeError:  # the record was overwritten meanwhile; the next read goes on behind it
            continue
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            if not line.startswith(b" "):
                yield _shown(line.decode("utf-8", "replace"))
    if rest:
        yield _shown(rest.decode("utf-8", "replace"))


def _shown(record: str) -> str:
    head, mark, text = record.partition(";")
    fields = head.split(",")
    if not mark or len(fields) < 3 or not fields[2].isdecimal():
        return record
    seconds, micros = divmod(int(fields[2]), 1_000_000)
    return f"[{seconds:5d}.{micros:06d}] {text}"
