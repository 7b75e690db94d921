"""Muon of torch.optim: matrices inside the blocks; everything else is stepped by AdamW, as its page says.

Source: torch/optim/_muon.py of PyTorch 2.13 (`_single_tensor_muon`, `_zeropower_via_newtonschulz`). No foreach.
See docs/terms/optimizer-muon.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.predict.optimizers.adam import Adam, ForeachAdam
from oomph.predict.optimizers.names import is_embedding, is_head
from oomph.predict.optimizers.script import SCALAR, STATE, TEMPORARY, Frame, Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter

MOMENTUM = "momentum buffers"
ITERATION = "Newton-Schulz iteration of one matrix"
_ITERATIONS = 5


@dataclass
class Muon(ScriptedStepper):
    """`rest`: what steps the parameters that are not matrices of a block."""

    rest: Adam = field(default_factory=ForeachAdam)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """Muon's step, then that of the others."""
        matrices = [each for each in parameters if hidden_matrix(each)]
        others = [each for each in parameters if not hidden_matrix(each)]
        if first:
            script.each((each.numel * each.grad_bytes for each in matrices), STATE, MOMENTUM)
        frame = Frame(script)
        for each in matrices:
            frame.bind("update", [script.alloc(each.numel * each.grad_bytes, TEMPORARY, ITERATION)])
            frame.bind("update", [self._newton_schulz(script, each)])
        frame.close()
        if others:
            self.rest.write(script, others, first)

    def _newton_schulz(self, script: Script, each: UnitParameter) -> int:
        """Five iterations in bf16; `gram` are the square matrices of the smaller side. Gives the block that stays."""
        inner = Frame(script)
        matrix, gram = 2 * each.numel, 2 * min(each.shape) ** 2
        if each.grad_bytes > 2:
            inner.bind("ortho_grad", [script.alloc(matrix, TEMPORARY, ITERATION)])
        script.free([script.alloc(SCALAR, TEMPORARY, ITERATION) for _ in range(2)])
        last = -1
        for _ in range(_ITERATIONS):
            inner.bind("gram_matrix", [script.alloc(gram, TEMPORARY, ITERATION)])
            inner.bind("gram_update", [script.alloc(gram, TEMPORARY, ITERATION)])
            last = script.alloc(matrix, TEMPORARY, ITERATION)
            inner.bind("ortho_grad", [last])
        inner.bind("gram_matrix")
        inner.bind("gram_update")
        return last


def hidden_matrix(parameter: UnitParameter) -> bool:
    """Whether Muon steps it: two dimensions, and neither an embedding nor an output layer."""
    return len(parameter.shape) == 2 and not (is_embedding(parameter.name) or is_head(parameter.name))
