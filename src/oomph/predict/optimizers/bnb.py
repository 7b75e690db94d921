"""bitsandbytes: 32-bit and 8-bit states, on the device or paged; AdamW (two states) and Lion (one).

Source: bitsandbytes/optim/optimizer.py of 0.45 to 0.50 (`Optimizer2State.init_state`, `Optimizer1State.init_state`,
`get_state_buffer`), and its pull request 1365 for the block size. A step goes parameter by parameter and allocates
nothing. See docs/terms/optimizer-bnb.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.predict.optimizers.adam import FIRST, SECOND
from oomph.predict.optimizers.names import is_embedding
from oomph.predict.optimizers.script import STATE, Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink

ABSMAX = "largest values of blocks of states (absmax)"
MAPS = "quantisation maps"
#: `min_8bit_size`: smaller tensors have fp32 states.
SMALLEST = 4096
#: `get_state_buffer`: states of smaller tensors are not paged.
SMALLEST_PAGED = 100_000
_MAP = 4 * 256


@dataclass
class Bitsandbytes(ScriptedStepper):
    """`bits`: 32 or 8. `states`: 2 (Adam, AdamW) or 1 (Lion, SGD with momentum). `paged`: states of tensors of 100,000
    elements and more are in managed memory, which PyTorch's allocator does not see; absmax stays on the device.
    `block`: elements per absmax (256; 2048 before bitsandbytes 0.44). `fp32_embeddings`: states of embeddings are
    32-bit whatever `bits` says (transformers' Trainer asks for that: `register_module_override`)."""

    bits: int = 8
    states: int = 2
    paged: bool = False
    block: int = 256
    fp32_embeddings: bool = False
    _maps: bool = field(default=False, repr=False, compare=False)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """The states at the first step; afterwards nothing."""
        if not first:
            return
        for each in parameters:
            eight = self.quantised(each)
            for name in (FIRST, SECOND)[: self.states]:
                if not (self.paged and each.numel >= SMALLEST_PAGED):
                    script.alloc(each.numel * (1 if eight else 4), STATE, name)
            if eight:
                script.each([4 * -(-each.numel // self.block)] * self.states, STATE, ABSMAX)

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """One step; the maps are made once, with the first 8-bit state."""
        if first and not self._maps and any(each.trainable and self.quantised(each) for each in parameters):
            self._maps = True
            for _ in range(self.states):
                sink.alloc(_MAP, STATE, MAPS)
        super().step(sink, parameters, first)

    def quantised(self, parameter: UnitParameter) -> bool:
        """Whether the states of a parameter are 8-bit."""
        if self.bits != 8 or parameter.numel < SMALLEST:
            return False
        return not (self.fp32_embeddings and is_embedding(parameter.name))
