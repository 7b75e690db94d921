"""Files: every write goes to a private folder over the real ones, and reads see it there.

What is let through, because it is no result of the run: devices and `/proc`, Python's `__pycache__`, the caches of
libraries below `~/.cache` and where their variables put them (see `allowed`). The folder for temporary files is a
private one for the run, so that `tempfile` works as ever, C code included. A C library that opens a file by itself is
not seen: PyTorch's and safetensors' own writers have modules of their own beside this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.tracing.suppress.files.overlay import Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_KEY = "oomph.suppress.overlay"


def install(recorder: Recorder) -> None:
    """Puts the overlay over the file system, as Python sees it."""
    from oomph.tracing.suppress.files import changing, holders, opening, reading, temporary

    overlay = Overlay(recorder.suppress)
    recorder.patches.when_undone(overlay.remove)
    recorder.kernel_memory[_KEY] = overlay
    temporary.install(recorder, overlay)
    opening.install(recorder, overlay)
    reading.install(recorder, overlay)
    changing.install(recorder, overlay)
    holders.install(recorder)


def overlay_of(recorder: Recorder) -> Overlay:
    """The overlay of this trace."""
    found = recorder.kernel_memory[_KEY]
    assert isinstance(found, Overlay)
    return found
