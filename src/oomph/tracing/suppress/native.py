"""Functions of libraries that open files in C, where Python's `open` is not asked: their paths are changed before.

What is not in this table and writes in C is not seen: `sentencepiece` trainers, `cv2.VideoWriter`, torchvision's
`write_png` and the like.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.files import overlay_of, real
from oomph.tracing.suppress.files.overlay import Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


@dataclass(frozen=True)
class _Opener:
    """`where` is a function of `module`, or `Class.method`; the path is argument number `index` or the keyword `name`.
    `does`: "read", "write" (a new file), "keep" (a file that may be there), "folder" (files in it), or "mode", which
    is told by the argument after the path."""

    module: str
    where: str
    index: int
    name: str
    does: str


_OPENERS = (
    _Opener("tokenizers", "Tokenizer.save", 1, "path", "write"),
    _Opener("tokenizers", "Tokenizer.from_file", 0, "path", "read"),
    _Opener("tokenizers.models", "Model.save", 1, "folder", "folder"),
    _Opener("sqlite3", "connect", 0, "database", "keep"),
    _Opener("sqlite3.dbapi2", "connect", 0, "database", "keep"),
    _Opener("pyarrow", "memory_map", 0, "path", "mode"),
    _Opener("pyarrow.parquet", "ParquetWriter.__init__", 1, "where", "write"),
    _Opener("pyarrow.parquet", "read_table", 0, "source", "read"),
    _Opener("pyarrow.parquet", "ParquetFile.__init__", 1, "source", "read"),
    _Opener("pyarrow.csv", "write_csv", 1, "output_file", "write"),
    _Opener("pyarrow.feather", "write_feather", 1, "dest", "write"),
    _Opener("h5py", "File.__init__", 1, "name", "mode"),
    _Opener("cv2", "imwrite", 0, "filename", "write"),
    _Opener("cv2", "imread", 0, "filename", "read"),
    _Opener("soundfile", "write", 0, "file", "write"),
)


def install(recorder: Recorder) -> None:
    """Changes the paths of every library in the table, once the script imports it."""
    overlay = overlay_of(recorder)
    for opener in _OPENERS:
        recorder.patches.when_imported(opener.module, _hook(recorder, overlay, opener))


def _hook(recorder: Recorder, overlay: Overlay, opener: _Opener) -> Callable[[ModuleType], None]:
    def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        more = list(args)
        if opener.name in kwargs:
            kwargs[opener.name] = _place(overlay, opener, kwargs[opener.name], args, kwargs)
        elif len(more) > opener.index:
            more[opener.index] = _place(overlay, opener, more[opener.index], args, kwargs)
        return original(*more, **kwargs)

    def hook(module: ModuleType) -> None:
        kind, _, method = opener.where.rpartition(".")
        owner = getattr(module, kind, None) if kind else module
        if owner is None or not hasattr(owner, method):
            return
        if kind and isinstance(vars(owner).get(method), staticmethod):
            original = getattr(owner, method)

            def static(*args: Any, **kwargs: Any) -> Any:
                return call(original, *args, **kwargs)

            recorder.patches.set(owner, method, staticmethod(static))
        else:
            recorder.patches.wrap(owner, method, call)

    return hook


def _place(
    overlay: Overlay, opener: _Opener, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The path to use instead, as text; what is no path stays."""
    if (
        not isinstance(path, str | os.PathLike)
        or str(path).startswith((":memory:", "file:"))
        or not str(path)
    ):
        return path
    does = opener.does
    if does == "mode":
        after = opener.index + 1
        mode = str(kwargs.get("mode") or (args[after] if len(args) > after else "r"))
        does = "read" if mode in ("r", "rb") else "write" if mode[0] in "wx" else "keep"
    if does == "read":
        found = overlay.reading(path)
    elif does == "folder":
        return _folder(overlay, path)
    else:
        found = overlay.writing(path, keep=does == "keep")
    return os.fspath(found)


def _folder(overlay: Overlay, path: Any) -> Any:
    """Where files in a folder go: its private copy, made without what the real one holds."""
    name = overlay.name(path)
    if name is None or overlay.passes(name) or not overlay.isdir(name):
        return path
    upper = overlay.above(name)
    overlay.say("write files in", name)
    real.makedirs(upper)
    overlay.touched = True
    return posixpath.normpath(upper)
