"""SGD of torch.optim: momentum is the only state.

Source: torch/optim/sgd.py of PyTorch 2.13 (`_init_group`, `_multi_tensor_sgd`, `_single_tensor_sgd`, `_fused_sgd`).
See docs/terms/optimizer-sgd.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.optimizers.script import STATE, TEMPORARY, Frame, Script, ScriptedStepper, by_dtype
from oomph.predict.sharding.base import UnitParameter

MOMENTUM = "momentum buffers"
DECAYED = "gradients with weight decay"


@dataclass
class Sgd(ScriptedStepper):
    """`momentum` 0: no state. The buffers are clones of the first gradients, so they have the gradients' dtype.
    `weight_decay`: whether there is any; then the decayed gradients are a set of their own (foreach) or one of a
    parameter (loop)."""

    impl: str = "foreach"
    momentum: float = 0.0
    weight_decay: bool = False

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """One step."""
        if self.impl == "fused":
            if first and self.momentum:
                script.each((_size(each) for each in parameters), STATE, MOMENTUM)
            return
        groups = by_dtype(parameters) if self.impl == "foreach" else [[each] for each in parameters]
        frame = Frame(script)
        for group in groups:
            frame.bind("grads")
            if self.weight_decay:
                frame.bind("grads", script.each(map(_size, group), TEMPORARY, DECAYED))
            if self.momentum:
                if first:
                    script.each(map(_size, group), STATE, MOMENTUM)
                frame.bind("grads")
        frame.close()


def _size(parameter: UnitParameter) -> float:
    return parameter.numel * parameter.grad_bytes
