"""The connectionist loss: lengths and offsets on the GPU while it runs, and a second table in backward."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import bytes_of
from oomph.tracing.kernels.rule import Call, Effect, Output, Take

_LONG = 8
_COUNTS = ("target lengths", "input lengths", "offsets")


class CtcLoss:
    """Per call three int64 numbers of each sequence; forward keeps a table of time steps and twice the labels, backward
    makes another of its size before the gradient."""

    name = "ctc_loss"
    operators = ("aten._ctc_loss", "aten._ctc_loss_backward")
    evidence = "aten/src/ATen/native/cuda/LossCTC.cu (ctc_loss_gpu_template, ctc_loss_backward_gpu_template)"

    def effect(self, call: Call) -> Effect | None:
        """Before the results; the table of forward comes before the losses."""
        backward = "backward" in str(call.op)
        log_probs = call.args[1 if backward else 0]
        batch = int(log_probs.shape[1])
        counts = tuple(Take(name, batch * _LONG) for name in _COUNTS)
        if backward:
            return Effect((*counts, Take("table", bytes_of(call.args[6])), Output()))
        return Effect((*counts, Output(1), Output(0)))


RULE = CtcLoss()
