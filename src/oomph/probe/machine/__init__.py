"""All GPUs of this host, from outside of any training process: by NVML, by nvidia-smi, or not at all."""

from __future__ import annotations

from oomph.probe.machine.choose import machine
from oomph.probe.machine.none import NoMachine
from oomph.probe.machine.nvml import NvmlMachine
from oomph.probe.machine.smi import SmiMachine
from oomph.probe.machine.visible import Visible, visible

__all__ = ["NoMachine", "NvmlMachine", "SmiMachine", "Visible", "machine", "visible"]
