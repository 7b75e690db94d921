"""Cells of recurrent layers (LSTMCell, GRUCell, and layers that cuDNN does not take): what is kept comes first."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import bytes_of
from oomph.tracing.kernels.rule import Call, Effect, Output


class RecurrentCells:
    """Forward allocates the gates that backward reads, then the states. Backward sums gates over the batch for the
    gradients of biases: bounded by one copy of the gates."""

    name = "recurrent_cells"
    operators = (
        "aten._thnn_fused_lstm_cell",
        "aten._thnn_fused_gru_cell",
        "aten._thnn_fused_lstm_cell_backward_impl",
        "aten._thnn_fused_gru_cell_backward",
    )
    evidence = "aten/src/ATen/native/cuda/RNN.cu (_thnn_fused_lstm_cell_cuda, _thnn_fused_gru_cell_cuda and backward)"

    def effect(self, call: Call) -> Effect | None:
        """The order of results, or the bound."""
        name = str(call.op)
        if "backward" in name:
            gates = call.args[4 if "lstm" in name else 1]
            return Effect((), uncertain_bytes=bytes_of(gates))
        return Effect((Output(2 if "lstm" in name else 1), Output()))


RULE = RecurrentCells()
