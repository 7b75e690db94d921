"""torchao's AdamW with 8-bit, 4-bit and fp8 states.

Source: torchao/optim/adam.py (`_new_buffer`, `single_param_adam`), subclass_8bit.py, subclass_4bit.py, subclass_fp8.py.
States of a parameter with fewer than 4,096 elements, or whose number the block does not divide, are as the parameter.
The step is compiled (torch.compile, full graph) per parameter: what one fused kernel leaves are buffers of the block
maxima and, for each state, the fp32 values between the two kernels (before and after the maxima). That part is read
off the code, not measured, and is an upper bound. See docs/terms/optimizer-torchao.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.optimizers.adam import FIRST, SECOND
from oomph.predict.optimizers.script import STATE, TEMPORARY, Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter

SCALES = "scales of blocks of states"
MAPS = "quantisation maps"
BETWEEN = "fp32 states of one parameter"
SMALLEST = 4096
#: Bytes per element, elements of a map, elements of a block, by bits. fp8 has no map.
_KINDS = {8: (1.0, 256, 256), 4: (0.5, 16, 128), 0: (1.0, 0, 256)}


@dataclass
class Torchao(ScriptedStepper):
    """`bits`: 8, 4, or 0 for fp8. `block`: elements of a block (None: 256, for 4 bits 128; before 0.6 8-bit and fp8
    had 2,048)."""

    bits: int = 8
    block: int | None = None

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """States at the first step, then the update of one parameter after the other."""
        each_bytes, entries, usual = _KINDS[self.bits]
        block = self.block or usual
        for each in parameters:
            quantised = each.numel >= SMALLEST and each.numel % block == 0
            if first:
                self._states(script, each, quantised, (each_bytes, entries, block))
            if quantised:
                script.free(script.each([4 * each.numel] * 2, TEMPORARY, BETWEEN))

    def _states(
        self, script: Script, each: UnitParameter, quantised: bool, kind: tuple[float, int, int]
    ) -> None:
        each_bytes, entries, block = kind
        for name in (FIRST, SECOND):
            if not quantised:
                script.alloc(each.numel * each.weight_bytes, STATE, name)
                continue
            script.alloc(each.numel * each_bytes, STATE, name)
            script.alloc(4 * (each.numel // block), STATE, SCALES)
            if entries:
                script.alloc(4 * entries, STATE, MAPS)
