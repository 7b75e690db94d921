"""Nothing is written outside the run: what a script saves, logs, sends or starts.

Files go to a private folder that lies over the real ones (`files`), so that a script finds again what it wrote; the
real ones are never touched. Savers run for what they do on the device and say that it is `save`. Trackers are
stand-ins that take everything, uploads and other programs do not happen. Each is listed once in the trace.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: In this order: the savers find the files' overlay.
_MODULES = (
    "files",
    "torch_save",
    "safetensors_save",
    "native",
    "checkpoints",
    "trackers",
    "network",
    "processes",
    "ranks",
    "loaders",
)


def install(recorder: Recorder) -> None:
    """Keeps everything inside the run. Called once, before the script runs."""
    for name in _MODULES:
        importlib.import_module(f"oomph.tracing.suppress.{name}").install(recorder)
