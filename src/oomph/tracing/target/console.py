"""Commands that are installed with Python packages: their entry points say which function they are."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path, PurePath

#: An entry point script is a few hundred bytes; what is longer than this is not looked into.
_HEAD_BYTES = 4096


def entry_point(name: str) -> str | None:
    """`module:function` of the console script of this name in the Python that runs; None if there is none."""
    for point in importlib.metadata.entry_points(group="console_scripts", name=name):
        module, _, function = point.value.partition("[")[0].strip().partition(":")
        if function:
            return f"{module.strip()}:{function.strip()}"
    return None


def on_path(word: str, folder: Path, path: str | None) -> Path | None:
    """The file that a shell would start for this word; None if there is none."""
    if "/" in word:
        place = folder / word
        return place if place.is_file() else None
    found = shutil.which(word, path=path)
    return None if found is None else Path(found)


def is_python(path: Path) -> bool:
    """Whether a file starts with a line that hands it to Python."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    if not head.startswith(b"#!"):
        return False
    first = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    names = [PurePath(word).name for word in first if not word.startswith("-")]
    if names and names[0] == "env":
        names = names[1:]
    # Installed scripts with long paths start with /bin/sh and hand themselves to Python on the second line.
    if names and names[0] == "sh":
        return b"'''exec'" in head.split(b"\n", 2)[1] if head.count(b"\n") > 1 else False
    return bool(names) and names[0].startswith(("python", "pypy"))
