"""Two ranks, of which one fails in the first attempt."""

from __future__ import annotations

import os

import oomph

with oomph.record(warn=False) as run, run.phase("load"):
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("the first attempt")
