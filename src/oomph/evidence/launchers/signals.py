"""Exit codes, signal names, and when a launcher said them."""

from __future__ import annotations

from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.model import Document

_NUMBERS = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGILL": 4,
    "SIGABRT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGUSR1": 10,
    "SIGSEGV": 11,
    "SIGUSR2": 12,
    "SIGPIPE": 13,
    "SIGTERM": 15,
}
#: What shells and srun print for a process that a signal ended (lower case).
_WORDS = {
    "hangup": 1,
    "interrupt": 2,
    "illegal instruction": 4,
    "aborted": 6,
    "bus error": 7,
    "floating point exception": 8,
    "killed": 9,
    "segmentation fault": 11,
    "terminated": 15,
}


def signal_code(name: str) -> int | None:
    """`SIGKILL`, `Signals.SIGKILL`, `9` or `Segmentation fault` -> the negative exit code, None if unknown."""
    text = name.strip().removeprefix("Signals.")
    if text.isascii() and text.isdigit() and len(text) < 3:
        return -int(text) or None
    number = _NUMBERS.get(text.upper()) or _WORDS.get(text.lower())
    return -number if number else None


def signal_of(code: int | None) -> int | None:
    """The signal that an exit code stands for: 9 for -9 and for the shell's and the container's 137; else None."""
    if code is None:
        return None
    if -65 < code < 0:
        return -code
    return code - 128 if 128 < code < 128 + 65 else None


def exit_code(text: str) -> int | None:
    """The code that `text` prints, None when it is not one (Windows prints unsigned 32-bit statuses)."""
    digits = text.strip().lstrip("+-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return None
    return int(text)


def stamp(document: Document, index: int) -> float | None:
    """Seconds of the timestamp that a launcher prints at the start of its line. glog's stamps have no year, and so
    cannot be compared with the error table's: None."""
    time = document.lines[index].time
    if time is None:
        time = parse_clock(document.lines[index].text[:120])
    return time if time is not None and time > 366 * 86_400 else None
