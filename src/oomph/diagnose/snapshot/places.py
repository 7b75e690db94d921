"""Where to look in a stack: the innermost frame of the user's own code.

A recorded stack mixes Python frames with those of C++ and of the interpreter itself. Python frames are told by their
file (".py", a notebook's cell, "<...>"); frames of torch, of installed packages and of the standard library are no
place that a user can change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.memory.stacks import Frame

_PYTHON = re.compile(r"\.(?:py|pyw|ipynb)$")
#: Sources and objects of compiled code, as seen in real snapshots: "ceval.c", "accumulate_grad.cpp", "thread48.o".
_COMPILED = re.compile(
    r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|o|so|dll|pyx|pyd|s|inl|tcc)(?:\.\d+)*$", re.IGNORECASE
)
_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/torch/|/lib/python[\d.]*/|/Lib/(?:threading|contextlib|asyncio)|"
    r"^<(?!ipython|stdin|module)|torchinductor|/[a-z2-7]{52}\.py$"
)
#: What torch.compile writes: a module named by the base32 of a SHA-256 of its text (torch/_inductor/codecache.py).
_GENERATED = re.compile(r"torchinductor|/[a-z2-7]{52}\.py$")


def is_python(frame: Frame) -> bool:
    """Whether this frame is Python code, not C++ or the interpreter's own C."""
    file = frame.file
    if _PYTHON.search(file) or file.startswith("<"):
        return True
    if frame.line <= 0 or file in ("", "??", "?") or "::" in frame.function or "(" in frame.function:
        return False
    return _COMPILED.search(file) is None and not frame.function.startswith(("_Py", "Py"))


def is_users(frame: Frame) -> bool:
    """Whether this frame is Python code of the user's own: not torch, not an installed package, not the standard
    library, not what torch.compile generated."""
    return is_python(frame) and _LIBRARY.search(frame.file.replace("\\", "/")) is None


def is_generated(frame: Frame) -> bool:
    """Whether torch.compile wrote this frame's code."""
    return _GENERATED.search(frame.file.replace("\\", "/")) is not None


def place_of(frames: Sequence[Frame]) -> Frame | None:
    """The frame to look at (`frames` innermost first): the user's innermost one, else the innermost one in Python,
    else None."""
    python = None
    for frame in frames:
        if is_python(frame):
            if is_users(frame):
                return frame
            python = python or frame
    return python
