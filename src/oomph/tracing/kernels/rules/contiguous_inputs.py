"""Kernels that read contiguous memory only copy an input that lies otherwise."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, is_tensor
from oomph.tracing.kernels.rule import Call, Effect, Output, Take

_EITHER_FORMAT = (
    *(
        f"aten.{prefix}_backward"
        for prefix in (
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d",
            "_upsample_nearest_exact3d",
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
            "_adaptive_avg_pool2d",
            "avg_pool2d",
            "avg_pool3d",
            "adaptive_max_pool2d",
            "max_pool3d_with_indices",
        )
    ),
    "aten._adaptive_avg_pool2d",
    "aten.adaptive_max_pool2d",
)
_CONTIGUOUS = (
    "aten._adaptive_avg_pool3d",
    "aten._adaptive_avg_pool3d_backward",
    "aten.adaptive_max_pool3d",
    "aten.adaptive_max_pool3d_backward",
    "aten.reflection_pad1d",
    "aten.reflection_pad2d",
    "aten.reflection_pad3d",
    "aten.reflection_pad1d_backward",
    "aten.reflection_pad2d_backward",
    "aten.reflection_pad3d_backward",
    "aten.replication_pad1d_backward",
    "aten.replication_pad2d_backward",
    "aten.replication_pad3d_backward",
)
# Positions of the inputs, and whether they are copied before the results are made.
_INPUTS = {
    "aten._softmax": ((0,), False),
    "aten._log_softmax": ((0,), False),
    "aten._softmax_backward_data": ((0, 1), False),
    "aten._log_softmax_backward_data": ((0, 1), False),
    "aten.native_layer_norm": ((0, 2, 3), True),
    "aten._fused_rms_norm": ((0, 2), True),
    "aten.nll_loss2d_forward": ((0, 1), False),
    "aten.nll_loss2d_backward": ((2,), False),
    "aten.cummax": ((0,), True),
    "aten.cummin": ((0,), True),
    "aten.logcumsumexp": ((0,), True),
    **dict.fromkeys((*_EITHER_FORMAT, *_CONTIGUOUS), ((0,), False)),
}


class ContiguousInputs:
    """Softmax copies after its result is there, layer norm before; resampling, pooling and padding where neither format
    of images fits."""

    name = "contiguous_inputs"
    operators = tuple(_INPUTS)
    evidence = (
        "aten/src/ATen/native/cuda/SoftMax.cu (host_softmax, host_softmax_backward: contiguous()), "
        "layer_norm_kernel.cu (layer_norm_cuda: expect_contiguous), NLLLoss2d.cu "
        "(nll_loss2d_forward_out_cuda_template), UpSample*.cu, Adaptive*Pooling*.cu, AveragePool*.cu, "
        "ReflectionPad.cu, ReplicationPadding.cu, ScanKernels.cpp; seen in a real snapshot of torch 2.7 (reflection "
        "padding of an image in channels-last format)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The copies, while the kernel runs."""
        packet = str(call.op).rsplit(".", 1)[0]
        positions, before = _INPUTS[packet]
        inputs = [call.args[position] for position in positions if position < len(call.args)]
        copies = tuple(
            Take(f"input{number}", bytes_of(tensor))
            for number, tensor in enumerate(inputs)
            if is_tensor(tensor) and not _readable(tensor, packet in _EITHER_FORMAT)
        )
        if not copies:
            return None
        return Effect((*copies, Output()) if before else (Output(), *copies))


def _readable(tensor: Any, either: bool) -> bool:
    if tensor.is_contiguous():
        return True
    if not either or tensor.dim() < 4:
        return False
    order = (1, *reversed(range(2, tensor.dim())), 0)  # channels last, fastest first
    expected = 1
    for dim in order:
        if int(tensor.shape[dim]) != 1 and int(tensor.stride()[dim]) != expected:
            return False
        expected *= int(tensor.shape[dim])
    return True


RULE = ContiguousInputs()
