"""Trials without a GPU: each command is traced on fake tensors (`oomph trace`), as a process of this machine."""

from __future__ import annotations

from oomph.trial.engines.local import LocalEngine


class TraceEngine(LocalEngine):
    """Runs what `trial.traced` makes of a command. A trace needs no card: several run side by side where asked."""

    name = "trace"
