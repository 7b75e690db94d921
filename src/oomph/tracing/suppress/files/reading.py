"""What asks about files without changing them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.files import real
from oomph.tracing.suppress.files.overlay import AnyPath, Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Functions of `os` that take a path first and answer what stands there.
_ASKS = ("stat", "lstat", "access", "readlink", "statvfs", "chdir", "getxattr", "listxattr", "pathconf")


def install(recorder: Recorder, overlay: Overlay) -> None:
    """Replaces the functions of `os` that ask; `os.path`, `pathlib`, `glob` and `shutil` go through them."""
    for name in _ASKS:
        if hasattr(os, name):
            recorder.patches.wrap(os, name, _asker(overlay))

    def listdir(path: AnyPath = None) -> list[Any]:
        path = "." if path is None else path
        name = overlay.name(path)
        if name is None or overlay.passes(name) or not overlay.merged(name):
            return real.listdir(overlay.reading(path))
        found = [each for each, _ in overlay.names_in(name)]
        return [os.fsencode(each) for each in found] if isinstance(path, bytes) else found

    def scandir(path: AnyPath = None) -> Any:
        path = "." if path is None else path
        name = overlay.name(path)
        if name is None or overlay.passes(name) or not overlay.merged(name):
            return real.scandir(overlay.reading(path))
        return _Scan(overlay, name, os.fspath(path))

    recorder.patches.set(os, "listdir", listdir)
    recorder.patches.set(os, "scandir", scandir)


def _asker(overlay: Overlay) -> Callable[..., Any]:
    def ask(original: Callable[..., Any], path: AnyPath, *args: Any, **kwargs: Any) -> Any:
        target = overlay.reading(path, kwargs.get("dir_fd"))
        if target is path:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        try:
            return original(target, *args, **kwargs)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, path) from None

    return ask


class _Scan:
    """What `os.scandir` gives for a folder that has entries on both sides."""

    def __init__(self, overlay: Overlay, name: str, shown: str | bytes) -> None:
        self._entries = iter(
            [
                _Entry(each, posixpath.join(overlay.above(name) if mine else name, each), shown)
                for each, mine in overlay.names_in(name)
            ]
        )

    def __iter__(self) -> Iterator[_Entry]:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As the real one's."""
        self._entries = iter(())


class _Entry:
    """As `os.DirEntry`: `name` and `path` are the script's, the answers those of the file that it sees."""

    def __init__(self, name: str, place: str, shown: str | bytes) -> None:
        self.name: Any = os.fsencode(name) if isinstance(shown, bytes) else name
        folder: Any = shown
        self.path: Any = posixpath.join(folder, self.name)
        self._place = place

    def __fspath__(self) -> Any:
        return self.path

    def inode(self) -> int:
        return real.lstat(self._place).st_ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return real.stat(self._place, follow_symlinks=follow_symlinks)

    def _kind(self, follow_symlinks: bool) -> int:
        try:
            return self.stat(follow_symlinks=follow_symlinks).st_mode & 0o170000
        except OSError:
            return 0

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == 0o040000

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == 0o100000

    def is_symlink(self) -> bool:
        return self._kind(False) == 0o120000

    def is_junction(self) -> bool:
        return False
