"""git's index: names, sizes, times and hashes of the tracked files (gitformat-index, versions 2 to 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

from oomph.recording.fingerprint.found import Found

_LARGEST = 64 << 20
#: Bits of an entry's flags: assumed unchanged, and extended flags; of those, not checked out.
_ASSUMED, _EXTENDED, _SKIPPED = 0x8000, 0x4000, 0x4000
#: Types of objects: a submodule is a commit.
_SUBMODULE = 0o160000


@dataclass(frozen=True)
class Entry:
    """A tracked file: its time in nanoseconds, the lower 32 bits of its size, git's name of its content."""

    name: str
    time_ns: int
    size: int
    hash: str


@dataclass(frozen=True)
class Index:
    """The tracked files, the tree that the index is (None: changed since it was written as one), and its own time:
    a file that is not older may have changed since without another time or size (git calls it racily clean)."""

    entries: tuple[Entry, ...]
    tree: str | None
    time_ns: int = 0


def read_index(path: Path, found: Found, hash_bytes: int = 20) -> Index | str:
    """The index, or a sentence that says why it cannot be read."""
    try:
        stat = path.stat()
        if stat.st_size > _LARGEST:
            return "the index of the checkout is too large to be read at the start"
        data = path.read_bytes()
        parsed = _parsed(data, found, hash_bytes)
        return parsed if isinstance(parsed, str) else replace(parsed, time_ns=stat.st_mtime_ns)
    except OSError as error:
        return f"the index of the checkout cannot be read: {error.strerror or error}"
    except (struct.error, IndexError, ValueError):
        return "the index of the checkout is of a kind that is not read (split, SHA-256, or damaged)"


def _parsed(data: bytes, found: Found, hash_bytes: int) -> Index | str:
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    entries, at, name = [], 12, b""
    fixed = 40 + hash_bytes + 2
    for number in range(count):
        if number % 512 == 511 and found.late:
            return "comparing all files takes longer than the start may"
        mode, size = struct.unpack_from(">I", data, at + 24)[0], struct.unpack_from(">I", data, at + 36)[0]
        seconds, nanoseconds = struct.unpack_from(">II", data, at + 8)
        flags = struct.unpack_from(">H", data, at + 40 + hash_bytes)[0]
        start, more = at + fixed, 0
        if flags & _EXTENDED:
            more = struct.unpack_from(">H", data, start)[0]
            start += 2
        if version == 4:
            cut, begin = _number(data, start)
            end = data.index(b"\0", begin)
            name = name[: len(name) - cut] + data[begin:end]
            after = end + 1
        else:
            end = data.index(b"\0", start)
            name = data[start:end]
            after = at + ((end - at) // 8 + 1) * 8
        if not (flags & _ASSUMED or more & _SKIPPED or mode & 0o170000 == _SUBMODULE):
            time_ns = seconds * 10**9 + nanoseconds
            digest = data[at + 40 : at + 40 + hash_bytes].hex()
            entries.append(Entry(name.decode("utf-8", "surrogateescape"), time_ns, size, digest))
        at = after
    return Index(tuple(entries), _tree(data, at, hash_bytes))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number as pack files write offsets, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _tree(data: bytes, at: int, hash_bytes: int) -> str | None:
    """The root's entry of the extension TREE: a path that is empty, a count of entries (-1: changed), and the tree."""
    while at + 8 <= len(data) - hash_bytes:
        name, size = struct.unpack_from(">4sI", data, at)
        if name == b"TREE":
            body = data[at + 8 : at + 8 + size]
            end = body.index(b"\n")
            if not body.startswith(b"\0") or body[1:].split(b" ", 1)[0].startswith(b"-"):
                return None
            tree = body[end + 1 : end + 1 + hash_bytes]
            return tree.hex() if len(tree) == hash_bytes else None
        if name == b"link":
            raise ValueError("a split index")
        at += 8 + size
    return None
