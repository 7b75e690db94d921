"""`torch.jit.script`: the Python code itself runs.

The compiler reads the source of every function that it meets, and those that a trace has replaced have none.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Leaves functions, modules and classes as they are written."""
    import torch

    def script(_original: Any, obj: Any = None, *_args: Any, **_kwargs: Any) -> Any:
        if not str(getattr(obj, "__module__", "")).startswith("torch."):
            recorder.assume(
                "Code under torch.jit.script ran as Python: where its compiler fuses operators, less is allocated."
            )
        return obj

    recorder.patches.wrap(torch.jit, "script", script)
