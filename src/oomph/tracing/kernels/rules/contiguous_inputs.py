"""Kernels that read contiguous memory only copy an input that lies otherwise."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import bytes_of, is_tensor
from oomph.tracing.kernels.rule import Call, Effect, Output, Take

# Positions of the inputs, and whether they are copied before the results are made.
_INPUTS = {
    "aten._softmax": ((0,), False),
    "aten._log_softmax": ((0,), False),
    "aten._softmax_backward_data": ((0, 1), False),
    "aten._log_softmax_backward_data": ((0, 1), False),
    "aten.native_layer_norm": ((0, 2, 3), True),
    "aten._fused_rms_norm": ((0, 2), True),
    "aten.nll_loss2d_forward": ((0, 1), False),
}


class ContiguousInputs:
    """Softmax copies after its result is there, layer norm before."""

    name = "contiguous_inputs"
    operators = tuple(_INPUTS)
    evidence = (
        "aten/src/ATen/native/cuda/SoftMax.cu (host_softmax, host_softmax_backward: contiguous()), "
        "layer_norm_kernel.cu (layer_norm_cuda: expect_contiguous), NLLLoss2d.cu (nll_loss2d_forward_out_cuda_template)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The copies, while the kernel runs."""
        positions, before = _INPUTS[str(call.op).rsplit(".", 1)[0]]
        inputs = [call.args[position] for position in positions if position < len(call.args)]
        copies = tuple(
            Take(f"input{number}", bytes_of(tensor))
            for number, tensor in enumerate(inputs)
            if is_tensor(tensor) and not tensor.is_contiguous()
        )
        if not copies:
            return None
        return Effect((*copies, Output()) if before else (Output(), *copies))


RULE = ContiguousInputs()
