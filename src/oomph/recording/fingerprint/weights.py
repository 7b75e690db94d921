"""A hash of the headers of a model's safetensors files: names, types and shapes of its weights, without their bytes."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from oomph.recording.fingerprint.found import Found

#: Headers of more bytes are not read (the format allows 100 MB; a model's has less than 1 MB).
_LARGEST_HEADER = 16 << 20
_ID = re.compile(r"[\w.\-]+(?:/[\w.\-]+)?\Z")


def weights(found: Found, name: str, revision: str) -> None:
    """`model.weights`: of the files in a folder, or in the hub's cache on this machine."""
    folder = _folder(name, revision)
    if folder is None:
        found.miss(
            "model.weights",
            "the weights' files are neither in a folder of that name nor in the hub's cache here",
        )
        return
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        found.miss("model.weights", "there is no safetensors file beside the model's configuration")
        return
    digest = hashlib.sha256()
    for file in files:
        header = None if found.late else _header(file)
        if header is None:
            found.miss("model.weights", f"the header of {file.name} could not be read in the time there is")
            return
        digest.update(file.name.encode() + b"\0" + header + b"\0" + _content_name(file).encode() + b"\0")
    found.put("model.weights", f"sha256:{digest.hexdigest()[:32]} (headers of {len(files)} files)")


def _folder(name: str, revision: str) -> Path | None:
    with suppress(OSError, ValueError):
        path = Path(name)
        if path.is_dir():
            return path
        if _ID.match(name):
            return _cached(name, revision)
    return None


def _cached(name: str, revision: str) -> Path | None:
    """The snapshot in the hub's cache (huggingface_hub's layout: models--org--name/snapshots/COMMIT)."""
    home = os.environ.get("HF_HOME") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    )
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    repository = cache / f"models--{name.replace('/', '--')}"
    if not revision:
        with suppress(OSError):
            revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        return None
    folder = repository / "snapshots" / revision
    return folder if folder.is_dir() else None


def _header(file: Path) -> bytes | None:
    """The header as it is written: 8 bytes of its length, little-endian, then JSON (safetensors' format)."""
    with suppress(OSError), file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if 2 <= size <= _LARGEST_HEADER:
            header = stream.read(size)
            return header if len(header) == size else None
    return None


def _content_name(file: Path) -> str:
    """In the hub's cache a file is a link to a blob whose name is the hash of its content; else the file's size."""
    with suppress(OSError):
        if file.is_symlink():
            return file.readlink().name
        return str(file.stat().st_size)
    return ""
