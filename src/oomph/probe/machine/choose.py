"""Who answers for the GPUs of this host."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from oomph.probe.machine.none import NoMachine
from oomph.probe.machine.nvml import NvmlMachine, Unavailable
from oomph.probe.machine.smi import SmiMachine

if TYPE_CHECKING:
    from oomph.probe.base import Machine

_INSTALL = "nvidia-ml-py is not installed (pip install 'oomph[gpu]')"


def machine() -> Machine:
    """NVML where nvidia-ml-py is installed and a driver is there, else nvidia-smi, else nobody, who says why."""
    try:
        return NvmlMachine()
    except ImportError:
        reason = _INSTALL
    except Unavailable as error:
        reason = str(error)
    program = shutil.which("nvidia-smi")
    if program is None:
        return NoMachine(f"no GPU can be read: {reason}, and there is no nvidia-smi.")
    try:
        return SmiMachine(program)
    except Unavailable as error:
        return NoMachine(f"no GPU can be read: {reason}, and {error}.")
