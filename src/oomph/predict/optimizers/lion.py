"""Lion as in lion-pytorch: one moment, and an update of one parameter at a time.

Source: lion_pytorch/lion_pytorch.py (`update_fn`): `exp_avg.clone().mul_(beta1).add(grad, alpha=1 - beta1).sign_()` is
a clone and a sum beside it; both are gone when the function returns. bitsandbytes' Lion is in bnb.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.optimizers.adam import FIRST
from oomph.predict.optimizers.script import STATE, TEMPORARY, Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter

UPDATE = "Lion's update of one parameter"


@dataclass
class Lion(ScriptedStepper):
    """`state_bytes`: bytes per element of the moment (None: as the parameter)."""

    state_bytes: float | None = None

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """State and update, parameter by parameter."""
        for each in parameters:
            size = each.numel * (each.weight_bytes if self.state_bytes is None else self.state_bytes)
            if first:
                script.alloc(size, STATE, FIRST)
            clone = script.alloc(size, TEMPORARY, UPDATE)
            update = script.alloc(size, TEMPORARY, UPDATE)
            script.free([clone, update])
