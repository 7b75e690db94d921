"""Optimizers whose states and step are on the host: nothing of them is on the device.

Source: torchao/optim/cpu_offload.py (`CPUOffloadOptimizer`: copies of parameters and gradients in pinned memory, the
step on the CPU, the result copied into the parameter), FSDP2's `CPUOffloadPolicy` and DeepSpeed's offload, where the
shards themselves are on the host. What the host needs is in predict/host.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.optimizers.script import Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter


@dataclass
class HostStepper(ScriptedStepper):
    """Allocates nothing on the device."""

    on_host: bool = True

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """Nothing."""
