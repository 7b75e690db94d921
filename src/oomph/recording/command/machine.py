"""The machine that a command runs on, as far as it can be read."""

from __future__ import annotations

from oomph.probe.base import Machine


def this_machine() -> Machine:
    """All GPUs and the main memory of this host. Its `why` says what cannot be read."""
    from oomph.probe.machine import machine

    return machine()
