"""Classes of Python's own that took functions of `os` when they were defined: `pathlib` of 3.10, `glob` of 3.13."""

from __future__ import annotations

import builtins
import glob
import os
import pathlib
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.files import real

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_HOLDERS = ((pathlib, "_NormalAccessor"), (glob, "_StringGlobber"), (glob, "_Globber"))


def install(recorder: Recorder) -> None:
    """Gives them the new ones. Called last."""
    changed: dict[int, Any] = {
        id(real.open_file): builtins.open,
        id(real.os_open): os.open,
        id(real.listdir): os.listdir,
        id(real.scandir): os.scandir,
    }
    for name in dir(os):
        function = getattr(os, name)
        original = getattr(function, "__wrapped__", None)
        if original is not None:
            changed[id(original)] = function
    for module, name in _HOLDERS:
        holder = getattr(module, name, None)
        for attribute, value in list(vars(holder).items()) if holder is not None else ():
            plain = value.__func__ if isinstance(value, staticmethod) else value
            if id(plain) in changed:
                recorder.patches.set(holder, attribute, staticmethod(changed[id(plain)]))
