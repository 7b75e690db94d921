"""Libraries that training scripts use: what has to be otherwise where there is no GPU, no network and no weights.

Each file has `install(recorder)`; nothing is imported that the script does not import itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_MODULES = (
    "compiled",
    "addresses",
    "hub",
    "weights",
    "safetensors",
    "same_paths",
    "flash",
    "tokenizer",
    "data",
    "trainer",
    "trl",
    "bnb",
    "accelerate",
    "diffusers",
    "generation",
    "amp",
    "lightning",
    "refusals",
    "triton_kernels",
)


def install(recorder: Recorder) -> None:
    """Prepares every library. Called once, before the script runs."""
    for name in _MODULES:
        importlib.import_module(f"oomph.tracing.libraries.{name}").install(recorder)
