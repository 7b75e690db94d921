"""A private folder that lies over the file system: where a path is read, where it is written, what is deleted.

Paths are made absolute and tidied by name; links in the middle of a path are followed by the system where it is read.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from oomph.tracing.suppress.files import real
from oomph.tracing.suppress.files.allowed import allowed_roots, is_bytecode

#: Paths as functions of `os` take them.
AnyPath = Any


class Overlay:
    """`files` mirrors the root folder; a path that is in `gone` was deleted, with all that is below it, and only what
    `files` has of it is there. `wrote` is told each path once, in words. `temporary` is the run's own folder for
    temporary files."""

    def __init__(self, wrote: Callable[[str], None]) -> None:
        self.root = tempfile.mkdtemp(prefix="oomph-")
        self.files = posixpath.join(self.root, "files")
        self.temporary = posixpath.join(self.root, "tmp")
        real.mkdir(self.files)
        real.mkdir(self.temporary)
        self.gone: set[str] = set()
        self.touched = False
        self._wrote = wrote
        self._through = (self.root, *allowed_roots(os.environ))

    def remove(self) -> None:
        """Deletes everything that was written."""
        real.rmtree(self.root, ignore_errors=True)

    # -- names ----------------------------------------------------------------------------------------------------

    def name(self, path: AnyPath, dir_fd: int | None = None) -> str | None:
        """The absolute path as the script means it; None for what is no path (a descriptor)."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if text.startswith("/"):
            return posixpath.abspath(text)
        if dir_fd is not None:
            return posixpath.abspath(posixpath.join(real.readlink(f"/proc/self/fd/{dir_fd}"), text))
        found = posixpath.abspath(text)
        if found.startswith(self.files + "/"):  # the script stands in a folder that only it has made
            found = found[len(self.files) :]
        return found

    def passes(self, name: str) -> bool:
        """Whether a path is written for real."""
        return is_bytecode(name) or any(
            name.startswith(root) and name[len(root) : len(root) + 1] in ("", "/") for root in self._through
        )

    def above(self, name: str) -> str:
        """Where the private copy of a path is or would be."""
        return self.files + name

    def hidden(self, name: str) -> bool:
        """Whether the real file of this name was deleted, by itself or with a folder above it."""
        if not self.gone:
            return False
        while name not in self.gone:
            upper = posixpath.dirname(name)
            if upper == name:
                return False
            name = upper
        return True

    # -- reading --------------------------------------------------------------------------------------------------

    def reading(self, path: AnyPath, dir_fd: int | None = None) -> Any:
        """The path to read instead; the same where nothing was changed there."""
        if not self.touched:
            return path
        name = self.name(path, dir_fd)
        if name is None or self.passes(name):
            return path
        upper = self.above(name)
        if real.lexists(upper) or self.hidden(name):
            return upper
        return path

    def exists(self, name: str) -> bool:
        """Whether something stands there for the script."""
        return real.lexists(self.above(name)) or (not self.hidden(name) and real.lexists(name))

    def isdir(self, name: str) -> bool:
        """Whether it is a folder for the script."""
        upper = self.above(name)
        return real.isdir(upper) if real.lexists(upper) else not self.hidden(name) and real.isdir(name)

    def merged(self, name: str) -> bool:
        """Whether a folder has entries on both sides, or deleted ones."""
        return self.touched and (
            real.isdir(self.above(name)) or any(posixpath.dirname(each) == name for each in self.gone)
        )

    def names_in(self, name: str) -> Iterator[tuple[str, bool]]:
        """The entries of a folder for the script: (name, whether the private folder has it)."""
        upper = self.above(name)
        mine = real.listdir(upper) if real.isdir(upper) else []
        yield from ((each, True) for each in mine)
        if self.hidden(name) or not real.isdir(name):
            return
        seen = set(mine)
        for each in real.listdir(name):
            if each not in seen and posixpath.join(name, each) not in self.gone:
                yield each, False

    # -- writing --------------------------------------------------------------------------------------------------

    def writing(self, path: AnyPath, *, keep: bool, dir_fd: int | None = None, verb: str = "write") -> Any:
        """The path to write instead; `keep` copies what the real file holds. Raises as `open` would where the folder
        does not exist."""
        name = self.name(path, dir_fd)
        if name is None or self.passes(name):
            return path
        folder = posixpath.dirname(name)
        if not self.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        upper = self.above(name)
        if self.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        self.say(verb, name)
        self.touched = True
        real.makedirs(posixpath.dirname(upper))
        if keep and not real.lexists(upper) and not self.hidden(name) and real.lexists(name):
            shutil.copyfile(name, upper)
        return upper

    def make_folder(self, path: AnyPath, dir_fd: int | None = None) -> bool:
        """Makes a folder as `os.mkdir`; False where that is to be done for real."""
        name = self.name(path, dir_fd)
        if name is None or self.passes(name):
            return False
        if self.exists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        if not self.isdir(posixpath.dirname(name)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        self.touched = True
        real.makedirs(self.above(name))
        return True

    def delete(self, path: AnyPath, *, folder: bool, tree: bool = False, dir_fd: int | None = None) -> bool:
        """Deletes a file, an empty folder, or a tree; False where that is to be done for real."""
        name = self.name(path, dir_fd)
        if name is None or self.passes(name):
            return False
        if not self.exists(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        if folder and not tree and next(self.names_in(name), None) is not None:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(path))
        upper = self.above(name)
        if not self.hidden(name) and real.lexists(name):
            self.say("delete", name)
            self.gone.add(name)
        self.touched = True
        if real.lexists(upper):
            if real.isdir(upper) and folder:
                real.rmtree(upper)
            else:
                real.unlink(upper)
        return True

    def copy_up(self, name: str) -> str:
        """The private copy of what stands at `name`, made where there is none, a folder with all that is in it."""
        upper = self.above(name)
        if self.isdir(name):
            real.makedirs(upper)
            for each, mine in list(self.names_in(name)):
                if not mine or real.isdir(posixpath.join(upper, each)):
                    self.copy_up(posixpath.join(name, each))
        elif not real.lexists(upper):
            real.makedirs(posixpath.dirname(upper))
            shutil.copyfile(name, upper, follow_symlinks=False)
        self.touched = True
        return upper

    def say(self, verb: str, name: str) -> None:
        """Lists what would have happened to a path."""
        here = real.getcwd() + "/"
        self._wrote(f"{verb} {name[len(here) :] if name.startswith(here) else name}")
