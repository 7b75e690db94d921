"""Temporary files go to the run's own folder: they are real there, for C code too, and gone afterwards."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from oomph.tracing.suppress.files.overlay import Overlay

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder, overlay: Overlay) -> None:
    """Points `tempfile` and the programs that the script starts to the run's folder."""
    before = os.environ.get("TMPDIR")

    def undo() -> None:
        if before is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = before

    recorder.patches.set(tempfile, "tempdir", overlay.temporary)
    os.environ["TMPDIR"] = overlay.temporary
    recorder.patches.when_undone(undo)
