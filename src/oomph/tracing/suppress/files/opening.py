"""`open` in its forms."""

from __future__ import annotations

import builtins
import io
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.files import real
from oomph.tracing.suppress.files.overlay import AnyPath, Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Modules of Python's own that took `open` by another name when they were imported.
_TAKEN = (
    ("tarfile", "bltn_open"),
    ("bz2", "_builtin_open"),
    ("lzma", "_builtin_open"),
    ("tokenize", "_builtin_open"),
)


def install(recorder: Recorder, overlay: Overlay) -> None:
    """Replaces `open`, `io.open` and `os.open`."""

    def opened(file: AnyPath, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return _open(overlay, file, mode, *args, **kwargs)

    def os_opened(path: AnyPath, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        return _os_open(overlay, path, flags, mode, dir_fd)

    patches = recorder.patches
    patches.set(builtins, "open", opened)
    patches.set(io, "open", opened)
    patches.set(os, "open", os_opened)

    def taken(module: ModuleType, name: str) -> None:
        if getattr(module, name, None) is real.open_file:
            patches.set(module, name, opened)

    for module, name in _TAKEN:
        if module in sys.modules:
            taken(sys.modules[module], name)


def _open(overlay: Overlay, file: AnyPath, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    opener = kwargs.get("opener") or (args[5] if len(args) > 5 else None)
    if isinstance(file, int) or opener is not None or not isinstance(mode, str):
        return real.open_file(file, mode, *args, **kwargs)
    if any(letter in mode for letter in "wax+"):
        name = overlay.name(file)
        if "x" in mode and name is not None and not overlay.passes(name) and overlay.exists(name):
            raise FileExistsError(17, os.strerror(17), file)
        keep = "w" not in mode and "x" not in mode
        if (
            keep
            and "a" not in mode
            and name is not None
            and not overlay.passes(name)
            and not overlay.exists(name)
        ):
            raise FileNotFoundError(2, os.strerror(2), file)
        target = overlay.writing(file, keep=keep)
    else:
        target = overlay.reading(file)
    if target is file:
        return real.open_file(file, mode, *args, **kwargs)
    # The script's name for the file stays the file's `name`.
    return real.open_file(file, mode, *args, **{**kwargs, "opener": _opener(target)})


def _opener(target: AnyPath) -> Any:
    def opener(path: AnyPath, flags: int) -> int:
        try:
            return real.os_open(target, flags, 0o666)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, path) from None

    return opener


def _os_open(overlay: Overlay, path: AnyPath, flags: int, mode: int, dir_fd: int | None) -> int:
    if not flags & _WRITES:
        return _read(overlay, path, flags, mode, dir_fd)
    name = overlay.name(path, dir_fd)
    if (
        name is None
        or overlay.passes(name)
        or flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1)
    ):
        return real.os_open(path, flags, mode, dir_fd=dir_fd)
    there = overlay.exists(name)
    if there and flags & os.O_CREAT and flags & os.O_EXCL:
        raise FileExistsError(17, os.strerror(17), path)
    if not there and not flags & os.O_CREAT:
        raise FileNotFoundError(2, os.strerror(2), path)
    target = overlay.writing(path, keep=not flags & os.O_TRUNC, dir_fd=dir_fd)
    return real.os_open(target, flags, mode)


def _read(overlay: Overlay, path: AnyPath, flags: int, mode: int, dir_fd: int | None) -> int:
    target = overlay.reading(path, dir_fd)
    if target is path:
        return real.os_open(path, flags, mode, dir_fd=dir_fd)
    return real.os_open(target, flags, mode)
