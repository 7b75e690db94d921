"""Files: every write goes to a private folder over the real ones, and reads see it there.

What is let through, because it is no result of the run: devices and `/proc`, Python's `__pycache__`, the caches of
libraries below `~/.cache` and where their variables put them (see `allowed`). The folder for temporary files is a
private one for the run, so that `tempfile` works as ever, C code included. A C library that opens a file by itself is
not seen: PyTorch's and safetensors' own writers have modules of their own beside this package.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from oomph.tracing.suppress.files.overlay import Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_overlays: WeakKeyDictionary[Recorder, Overlay] = WeakKeyDictionary()


def install(recorder: Recorder) -> None:
    """Puts the overlay over the file system, as Python sees it."""
    from oomph.tracing.suppress.files import changing, holders, opening, reading, temporary

    overlay = Overlay(recorder.suppress)
    recorder.patches.when_undone(overlay.remove)
    _overlays[recorder] = overlay
    _notice_forks(overlay)
    temporary.install(recorder, overlay)
    opening.install(recorder, overlay)
    reading.install(recorder, overlay)
    changing.install(recorder, overlay)
    holders.install(recorder)


def _notice_forks(overlay: Overlay) -> None:
    """A forked process writes to the same private folder; this one has to look there from then on."""
    watched = ref(overlay)

    def forking() -> None:
        found = watched()
        if found is not None:
            found.touched = True

    os.register_at_fork(before=forking)


def overlay_of(recorder: Recorder) -> Overlay:
    """The overlay of this trace."""
    return _overlays[recorder]
