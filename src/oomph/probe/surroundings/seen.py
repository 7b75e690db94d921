"""What a reader answers: a value with what was asked and what it said, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

ROOT = Path("/")
#: Bytes of a file of /proc, /sys or /run that are read at most.
_LARGEST = 1 << 22
_PIECE = 1 << 16


@dataclass(frozen=True)
class Seen(Generic[T]):
    """A value; `source` is what was asked ("/proc/meminfo"), `text` what it said of it."""

    value: T
    source: str
    text: str


@dataclass(frozen=True)
class Untold:
    """Nothing could be read; `why` says what is missing, and what would tell."""

    why: str


def under(root: Path, path: str) -> Path:
    """An absolute path below another root."""
    return root / path.lstrip("/")


def read(root: Path, path: str) -> str | None:
    """The file's text, without what is behind its first 4 MiB; None where it cannot be read."""
    try:
        with under(root, path).open("rb", buffering=0) as stream:
            data = b""
            # The kernel refuses to be read in large pieces below /proc/sys.
            while len(data) < _LARGEST and (piece := stream.read(_PIECE)):
                data += piece
            return data.decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def first_line(root: Path, path: str) -> str:
    """The file's first line without blanks round it; "" where it cannot be read."""
    lines = (read(root, path) or "").replace("\0", "").strip().splitlines()
    return lines[0].strip() if lines else ""
