"""Run directories on another file system, by fsspec: s3://, gs://, memory://, sftp:// and what else it knows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from oomph.errors import InputError, UsageError
from oomph.evidence.run.files import Files, looks_like_run
from oomph.evidence.run.model import END, FINGERPRINT, RANKS, RUN
from oomph.recording.store.folders import Found

_DEEPEST = 2
#: Bytes that are asked for at once.
_BLOCK = 1 << 20
#: What each service's driver is called, where fsspec has it not by itself.
_DRIVERS = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "hf": "huggingface_hub",
}


def file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it. Raises UsageError where fsspec or a driver is missing, or the
    URL is none of its."""
    scheme = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{url}: other file systems need fsspec: pip install 'oomph[fsspec]'") from None
    try:
        system, path = url_to_fs(url, use_listings_cache=False)
    except ImportError:
        driver = _DRIVERS.get(scheme, "its driver of fsspec")
        raise UsageError(f"{url}: {scheme}:// needs {driver}: pip install {driver}") from None
    except TypeError:
        system, path = url_to_fs(url)
    except Exception as error:  # noqa: BLE001 - drivers raise what their service's library raises
        raise UsageError(f"{url}: {_said(error)}") from None
    return system, str(path).rstrip("/")


class RemoteFiles:
    """The files of a run directory on another file system; see evidence.run.files.Files."""

    def __init__(self, url: str, system: Any = None, root: str | None = None) -> None:
        self.path = url.rstrip("/")
        if system is None or root is None:
            system, root = file_system(url)
        self._system, self._root = system, root
        self._listed: dict[str, dict[str, int | None]] = {}

    def open(self, name: str) -> BinaryIO:
        """For reading. Raises OSError, whatever the driver raises."""
        try:
            # Drivers' own files read lines without a limit only.
            return io.BufferedReader(self._system.open(f"{self._root}/{name}", "rb"), _BLOCK)
        except FileNotFoundError:
            raise FileNotFoundError(2, "no such file", f"{self.path}/{name}") from None
        except Exception as error:
            raise OSError(5, _said(error), f"{self.path}/{name}") from error

    def ls(self, folder: str) -> list[str]:
        """The names in a folder."""
        return sorted(self._entries(folder))

    def size(self, name: str) -> int | None:
        """Bytes of a file."""
        folder, _, last = name.rpartition("/")
        return self._entries(folder).get(last)

    def _entries(self, folder: str) -> dict[str, int | None]:
        """Names in a folder, with the sizes of those that are files."""
        if folder not in self._listed:
            path = f"{self._root}/{folder}".rstrip("/")
            listed = _entries(self._system, path)
            self._listed[folder] = {
                _last(each["name"]): int(each["size"] or 0) if each.get("type") == "file" else None
                for each in listed
                if str(each["name"]).rstrip("/") != path
            }
        return self._listed[folder]


class RemoteFolder:
    """A folder of another file system."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._system, self._root = file_system(path)
        self._scheme = path.partition("://")[0]

    def runs(self) -> Iterator[Found]:
        """Every run directory below it. Raises InputError where it cannot be listed at all."""
        try:
            self._system.ls(self._root, detail=False)
        except FileNotFoundError:
            return
        except Exception as error:  # noqa: BLE001 - as above
            raise InputError(f"{self.path}: cannot be listed: {_said(error)}") from None
        yield from self._below(self.path, self._root, 0)

    def files(self, path: str) -> Files:
        """The files of one run directory."""
        return RemoteFiles(path)

    def _below(self, url: str, root: str, depth: int) -> Iterator[Found]:
        files = RemoteFiles(url, self._system, root)
        if looks_like_run(files):
            yield Found(url, files, self._stamp(root))
            return
        if depth >= _DEEPEST:
            return
        for name in files.ls(""):
            if files.size(name) is None and not name.startswith("."):
                yield from self._below(f"{url}/{name}", f"{root}/{name}", depth + 1)

    def _stamp(self, root: str) -> str:
        digest = hashlib.sha256()
        for folder in ("", RANKS, FINGERPRINT, "gpus"):
            listed = _entries(self._system, f"{root}/{folder}".rstrip("/"))
            for each in sorted(listed, key=lambda one: str(one["name"])):
                name = _last(each["name"])
                if name.endswith((".json", ".jsonl")) and (folder or name in (RUN, END)):
                    marks = [
                        str(each.get(key, "")) for key in ("size", "ETag", "LastModified", "mtime", "created")
                    ]
                    digest.update("\0".join([folder, name, *marks]).encode())
        return digest.hexdigest()[:32]


def _entries(system: Any, path: str) -> list[dict[str, Any]]:
    try:
        return list(system.ls(path, detail=True))
    except Exception:  # noqa: BLE001 - a folder that is not there; what raises for it differs
        return []


def _last(name: object) -> str:
    return str(name).rstrip("/").rpartition("/")[2]


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
