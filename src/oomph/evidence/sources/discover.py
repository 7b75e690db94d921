"""From what the user named (files, directories, patterns, "-") to the files to read, in natural order."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import InputError

#: How standard input is named, on the command line and in quotes.
STDIN = "-"
#: More files than any job's output has: a directory with more was probably named by mistake.
MAX_FILES = 20_000
#: Directories of tools, never of a job's output.
_SKIPPED_DIRECTORIES = frozenset({"__pycache__", "node_modules", "site-packages"})
_PATTERN = re.compile(r"[*?\[]")
_DIGITS = re.compile(r"(\d+)")
_ROTATED = re.compile(r"(.+\.(?:log|out|err|txt))\.(\d{1,4})(?:\.(?:gz|zst))?\Z", re.ASCII)


@dataclass(frozen=True)
class Entry:
    """One file to read. `path` is None for standard input; `name` is how the user would name the file; `explicit`
    files were named (or matched) themselves, others were found in a directory."""

    path: Path | None
    name: str
    explicit: bool
    size: int = 0


@dataclass
class Found:
    """What the arguments stand for; `notes` are sentences about what was passed over."""

    entries: list[Entry]
    notes: list[str]


def discover(paths: Sequence[str | os.PathLike[str]]) -> Found:
    """The files behind `paths`, each once, directories searched in natural order (rank 10 after rank 9).

    Raises InputError for a path that does not exist or is not a file, and when no file is left.
    """
    found = Found([], [])
    seen: set[tuple[object, ...]] = set()
    if not paths:
        raise InputError("No input was given: name the job's log, its directory, or - for standard input.")
    for given in paths:
        name = os.fspath(given)
        for entry in _expand(name, found):
            identity = _identity(entry)
            if identity not in seen:
                seen.add(identity)
                found.entries.append(entry)
    if not found.entries:
        raise InputError(_nothing(paths, found.notes))
    return found


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """A sort key under which digits compare as numbers."""
    return [
        (0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part
    ]


def order_key(name: str) -> tuple[list[tuple[int, int, str]], int]:
    """Natural order, but a rotated log (train.log.2, train.log.1.gz) before what was written after it."""
    match = _ROTATED.match(name)
    if match is None:
        return natural_key(name), 0
    return natural_key(match[1]), -int(match[2])


def _expand(name: str, found: Found) -> Iterator[Entry]:
    if name == STDIN:
        yield Entry(None, STDIN, explicit=True)
        return
    path = Path(name)
    mode = _mode(path, name)
    if mode is None and _PATTERN.search(name):
        matches = sorted(glob.glob(name, recursive=True), key=order_key)  # noqa: PTH207 (keeps the user's spelling)
        if not matches:
            raise InputError(
                f"No file matches {name}. Check the pattern, or name the directory to read all that is in it."
            )
        for match in matches:
            yield from _one(Path(match), match, _mode(Path(match), match), found, matched=True)
        return
    if mode is None:
        raise InputError(
            f"{name} does not exist. Check the path; a directory is read with all that is in it."
        )
    yield from _one(path, name, mode, found, matched=False)


def _mode(path: Path, name: str) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except PermissionError:
        raise InputError(f"{name} cannot be opened: permission denied. Ask for read access.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name!r} cannot be opened: {reason}.") from None


def _one(path: Path, name: str, mode: int | None, found: Found, *, matched: bool) -> Iterator[Entry]:
    if mode is None:  # a broken link that a pattern matched
        return
    if stat.S_ISDIR(mode):
        # What a pattern such as logs/** matches holds the directories' files already.
        yield from _walk(path, name, found)
    elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        yield Entry(path, name, explicit=True, size=path.stat().st_size if stat.S_ISREG(mode) else 0)
    elif not matched:
        raise InputError(
            f"{name} is neither a file nor a directory. Name a log, or use - to read from a pipe."
        )


def _walk(top: Path, name: str, found: Found) -> Iterator[Entry]:
    """The readable regular files under `top`. Links are followed, each directory is entered once."""
    visited: set[tuple[int, int] | str] = set()
    count = 0
    stack: list[tuple[Path, str]] = [(top, name.rstrip("/\\") if len(name) > 1 else name)]
    while stack:
        directory, shown = stack.pop()
        try:
            status = directory.stat()
            children = sorted(os.scandir(directory), key=lambda child: order_key(child.name))
        except OSError as error:
            found.notes.append(f"{shown} could not be read ({error.strerror or error})")
            continue
        identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(directory)
        if identity in visited:
            continue
        visited.add(identity)
        inner: list[tuple[Path, str]] = []
        for child in children:
            if child.name.startswith("."):
                continue
            child_name = os.path.join(shown, child.name)  # noqa: PTH118 (keeps the user's spelling)
            try:
                if child.is_dir():
                    if child.name not in _SKIPPED_DIRECTORIES:
                        inner.append((Path(child.path), child_name))
                    continue
                if not child.is_file():
                    continue
                size = child.stat().st_size
            except OSError:  # a loop of links, or gone since the directory was listed
                continue
            count += 1
            if count > MAX_FILES:
                found.notes.append(f"only the first {MAX_FILES} files of {name} were read")
                return
            yield Entry(Path(child.path), child_name, explicit=False, size=size)
        stack += reversed(inner)


def _identity(entry: Entry) -> tuple[object, ...]:
    """The same for two names of one file."""
    if entry.path is None:
        return (STDIN,)
    try:
        status = entry.path.stat()
    except OSError:
        return (entry.name,)
    if status.st_ino and stat.S_ISREG(status.st_mode):
        return (status.st_dev, status.st_ino)
    return (os.path.realpath(entry.path),)


def _nothing(paths: Sequence[str | os.PathLike[str]], notes: Sequence[str]) -> str:
    names = ", ".join(os.fspath(path) for path in paths[:3]) + (", ..." if len(paths) > 3 else "")
    reasons = f" ({'; '.join(notes[:3])})" if notes else ""
    return f"There is no file to read in {names}{reasons}. Name the directory or file that holds the job's output."
