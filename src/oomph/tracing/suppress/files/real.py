"""The functions of Python's own that the overlay stands before, as they were when this module was imported."""

from __future__ import annotations

import builtins
import os
import posixpath
import shutil

getcwd = os.getcwd
open_file = builtins.open
os_open = os.open
stat = os.stat
lstat = os.lstat
mkdir = os.mkdir
unlink = os.unlink
rmdir = os.rmdir
rename = os.rename
symlink = os.symlink
readlink = os.readlink
listdir = os.listdir
scandir = os.scandir
rmtree = shutil.rmtree


def lexists(path: str) -> bool:
    """Whether something stands there, a dangling link included."""
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


def isdir(path: str) -> bool:
    """Whether a folder stands there, or a link to one."""
    try:
        return (stat(path).st_mode & 0o170000) == 0o040000
    except (OSError, ValueError):
        return False


def makedirs(path: str) -> None:
    """The folder and those above it."""
    if isdir(path):
        return
    above = posixpath.dirname(path)
    if above != path:
        makedirs(above)
    try:
        mkdir(path)
    except FileExistsError:
        return
