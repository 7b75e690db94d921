"""What makes, moves and deletes files and folders."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.files import real
from oomph.tracing.suppress.files.overlay import AnyPath, Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Functions of `os` that change a file where it stands; of a real file they are left out.
_TOUCH = ("chmod", "lchmod", "chown", "lchown", "chflags", "utime", "setxattr", "removexattr")


def install(recorder: Recorder, overlay: Overlay) -> None:
    """Replaces the functions of `os` that change something, and `shutil.rmtree`, which works with descriptors."""
    patches, change = recorder.patches, _Changes(overlay)
    for name in ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "symlink", "link", "truncate"):
        patches.wrap(os, name, getattr(change, name))
    for name in ("mkfifo", "mknod"):
        patches.wrap(os, name, change.special)
    for name in _TOUCH:
        if hasattr(os, name):
            patches.wrap(os, name, change.touch)
    patches.wrap(shutil, "rmtree", change.rmtree)


class _Changes:
    """Each is called with the real function first, as `Patches.wrap` does."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay

    def mkdir(
        self, original: Callable[..., Any], path: AnyPath, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> None:
        if not self.overlay.make_folder(path, dir_fd):
            original(path, mode, dir_fd=dir_fd)

    def rmdir(self, original: Callable[..., Any], path: AnyPath, *, dir_fd: int | None = None) -> None:
        if not self.overlay.delete(path, folder=True, dir_fd=dir_fd):
            original(path, dir_fd=dir_fd)

    def unlink(self, original: Callable[..., Any], path: AnyPath, *, dir_fd: int | None = None) -> None:
        if not self.overlay.delete(path, folder=False, dir_fd=dir_fd):
            original(path, dir_fd=dir_fd)

    remove = unlink

    def rmtree(self, original: Callable[..., Any], path: AnyPath, *args: Any, **kwargs: Any) -> None:
        try:
            done = self.overlay.delete(path, folder=True, tree=True)
        except OSError:
            done = False  # the real one reports it as it was asked to
        if not done:
            original(path, *args, **kwargs)

    def rename(self, original: Callable[..., Any], src: AnyPath, dst: AnyPath, **kwargs: Any) -> None:
        overlay = self.overlay
        one = overlay.name(src, kwargs.get("src_dir_fd"))
        two = overlay.name(dst, kwargs.get("dst_dir_fd"))
        if one is None or two is None or (overlay.passes(one) and overlay.passes(two)):
            original(src, dst, **kwargs)
            return
        if not overlay.passes(one) and not overlay.exists(one):
            raise FileNotFoundError(2, os.strerror(2), src, None, dst)
        source = one if overlay.passes(one) else overlay.copy_up(one)
        if overlay.passes(two):
            target = two
        elif real.isdir(source):
            target = self._folder(two)
        else:
            target = overlay.writing(two, keep=False)
        try:
            original(source, target)
        except OSError:  # another file system
            shutil.move(source, target)
        if not overlay.passes(one) and real.lexists(one) and not overlay.hidden(one):
            overlay.say("move", one)
            overlay.gone.add(one)

    replace = rename

    def _folder(self, name: str) -> str:
        """Where a folder that is moved to `name` goes; an empty one there is replaced, as the system does."""
        overlay = self.overlay
        if overlay.exists(name):
            overlay.delete(name, folder=overlay.isdir(name))
        upper = overlay.above(name)
        real.makedirs(posixpath.dirname(upper))
        overlay.touched = True
        overlay.say("write", name)
        return upper

    def symlink(
        self, original: Callable[..., Any], src: AnyPath, dst: AnyPath, *args: Any, **kwargs: Any
    ) -> None:
        overlay = self.overlay
        dir_fd = kwargs.pop("dir_fd", None)
        name = overlay.name(dst, dir_fd)
        if name is None or overlay.passes(name):
            original(src, dst, *args, dir_fd=dir_fd, **kwargs)
            return
        if overlay.exists(name):
            raise FileExistsError(17, os.strerror(17), src, None, dst)
        target = overlay.writing(dst, keep=False, dir_fd=dir_fd)
        pointed = posixpath.join(posixpath.dirname(name), os.fsdecode(src))
        relative = not posixpath.isabs(os.fsdecode(src)) and real.lexists(
            overlay.above(posixpath.abspath(pointed))
        )
        real.symlink(src if relative else overlay.reading(pointed), target)

    def link(self, original: Callable[..., Any], src: AnyPath, dst: AnyPath, **kwargs: Any) -> None:
        overlay = self.overlay
        name = overlay.name(dst, kwargs.get("dst_dir_fd"))
        if name is None or overlay.passes(name):
            original(overlay.reading(src), dst, **kwargs)
            return
        if overlay.exists(name):
            raise FileExistsError(17, os.strerror(17), src, None, dst)
        shutil.copyfile(overlay.reading(src), overlay.writing(dst, keep=False))

    def truncate(self, original: Callable[..., Any], path: AnyPath, length: int) -> None:
        original(self.overlay.writing(path, keep=True), length)

    def special(self, original: Callable[..., Any], path: AnyPath, *args: Any, **kwargs: Any) -> None:
        original(self.overlay.writing(path, keep=False, dir_fd=kwargs.pop("dir_fd", None)), *args, **kwargs)

    def touch(self, original: Callable[..., Any], path: AnyPath, *args: Any, **kwargs: Any) -> None:
        overlay = self.overlay
        name = overlay.name(path, kwargs.get("dir_fd"))
        if name is None or overlay.passes(name):
            original(path, *args, **kwargs)
            return
        upper = overlay.above(name)
        if real.lexists(upper):
            kwargs.pop("dir_fd", None)
            original(upper, *args, **kwargs)
        elif not overlay.exists(name):
            raise FileNotFoundError(2, os.strerror(2), path)
