"""The data set: datasets' own fingerprint, or hashes of files in the time there is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from oomph.recording.fingerprint.found import Found

#: Files up to this size are hashed whole; of longer ones the first and last bytes, and the size.
_WHOLE, _SAMPLE = 4 << 20, 64 << 10
_MOST_FILES = 1000
#: What a DataLoader's arguments say about memory.
_LOADER = ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "drop_last", "persistent_workers")


def data(found: Found, given: object, name: str = "data") -> None:
    """`data.*`. `given`: a Dataset or DatasetDict of datasets, a file, folder or list of them, a torch Dataset or
    DataLoader, or a table of any of these by name (train, eval)."""
    if given is None:
        return
    own = getattr(given, "_fingerprint", None)
    if isinstance(own, str):
        found.put(f"{name}.fingerprint", own)
        _shape(found, given, name)
    elif isinstance(given, (str, Path)):
        _files(found, [given], name)
    elif isinstance(given, Mapping):
        for key, each in list(given.items())[:20]:
            data(found, each, f"{name}.{key}")
    elif isinstance(given, (list, tuple)) and given and all(isinstance(each, (str, Path)) for each in given):
        _files(found, given, name)
    elif hasattr(given, "dataset") and hasattr(given, "batch_size"):
        for field in _LOADER:
            found.put(f"{name}.loader.{field}", getattr(given, field, None))
        data(found, given.dataset, name)
    else:
        _shape(found, given, name)
        found.miss(f"{name}.fingerprint", f"{type(given).__name__} has none, and no file was named")


def _shape(found: Found, given: Any, name: str) -> None:
    found.put(f"{name}.class", type(given).__name__)
    with suppress(Exception):
        found.put(f"{name}.rows", len(given))
    columns = getattr(given, "column_names", None)
    if isinstance(columns, (list, tuple)):
        found.put(f"{name}.columns", ", ".join(map(str, columns)))
    for field in ("split", "version", "config_name"):
        with suppress(Exception):
            found.put(f"{name}.{field}", getattr(getattr(given, "info", given), field, None))


def _files(found: Found, paths: Iterable[str | Path], name: str) -> None:
    """One hash over names, sizes and contents, and how it was made: "whole", or "sampled" where files are large."""
    try:
        files = [file for path in paths for file in _listed(Path(path).expanduser())]
    except (OSError, ValueError, RuntimeError) as error:
        found.miss(f"{name}.fingerprint", f"its files cannot be read: {error}")
        return
    if not files:
        found.put(f"{name}.id", ", ".join(str(path) for path in paths))
        found.miss(f"{name}.fingerprint", "no file or folder of that name is on this machine")
        return
    digest, total, way = hashlib.sha256(), 0, "whole"
    for file in files[:_MOST_FILES]:
        if found.late:
            found.miss(f"{name}.fingerprint", f"hashing {len(files)} files takes longer than the start may")
            break
        try:
            size, content = _content(file)
        except OSError as error:
            found.miss(f"{name}.fingerprint", f"{file.name} cannot be read: {error.strerror or error}")
            break
        way = "sampled" if size > _WHOLE else way
        total += size
        digest.update(f"{file.name}\0{size}\0".encode() + content)
    else:
        found.put(f"{name}.fingerprint", f"sha256:{digest.hexdigest()[:32]} ({way})")
        found.put(f"{name}.bytes", total)
    found.put(f"{name}.files", len(files))


def _listed(path: Path) -> list[Path]:
    if path.is_dir():
        found = []
        for each in path.rglob("*"):
            if each.is_file() and not each.name.startswith("."):
                found.append(each)
            if len(found) > _MOST_FILES:
                break
        return sorted(found)
    return [path] if path.is_file() else []


def _content(file: Path) -> tuple[int, bytes]:
    """A file's size, and the hash of it or of its ends."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= _WHOLE:
            return size, hashlib.sha256(stream.read()).digest()
        first = stream.read(_SAMPLE)
        stream.seek(size - _SAMPLE)
        return size, hashlib.sha256(first + stream.read(_SAMPLE)).digest()
