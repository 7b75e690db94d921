"""fp32 copies of lower-precision parameters that an optimizer steps in their place (apex O2, Megatron, own loops).

Source: apex/amp/_process_optimizer.py: masters are cloned when the optimizer is wrapped; at each step the gradients are
copied to fp32 (one set, freed with zero_grad), the masters are stepped and copied back in place. ZeRO's masters belong
to its sharding (predict/sharding/zero.py), not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oomph.memory.categories import Category
from oomph.predict.optimizers.adam import ForeachAdam
from oomph.predict.optimizers.script import STATE, Script, ScriptedStepper, trainable
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink

MASTERS = "fp32 masters of parameters"
GRADS = "fp32 copies of gradients"


@dataclass
class MasterCopies(ScriptedStepper):
    """`inner` steps the copies. Parameters in fp32 are their own masters."""

    inner: ScriptedStepper = field(default_factory=ForeachAdam)

    def setup(self, sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
        """The copies."""
        for each in trainable(parameters):
            if lower(each):
                sink.alloc(4 * each.numel, STATE, MASTERS)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """fp32 gradients, and the step of the masters."""
        grads = script.each((4 * each.numel for each in parameters if lower(each)), Category.GRADIENTS, GRADS)
        masters = [
            replace(each, weight_bytes=4.0, compute_bytes=4.0, grad_bytes=4.0) if lower(each) else each
            for each in parameters
        ]
        self.inner.write(script, masters, first)
        script.free(grads)


def lower(parameter: UnitParameter) -> bool:
    """Whether a parameter has less than fp32's bytes."""
    return parameter.weight_bytes < 4
