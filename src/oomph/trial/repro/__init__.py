"""A failing phase as one script: `write(Asked(job, phase, ...)) -> Script`."""

from __future__ import annotations

from oomph.trial.repro.model import Asked, Script
from oomph.trial.repro.write import write

__all__ = ["Asked", "Script", "write"]
