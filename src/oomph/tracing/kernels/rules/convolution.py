"""Convolutions through cuDNN: copies into one memory format, and a workspace that cuDNN alone knows."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, is_tensor
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take


class Convolution:
    """Input and weight are brought into the same format, channels last if either is, and the gradient too. The
    workspace depends on the algorithm that cuDNN's heuristics or a benchmark take: bounded by two copies of what the
    kernel reads, as algorithms that transform their operands need."""

    name = "convolution"
    operators = (
        "aten.convolution",
        "aten.convolution_backward",
        "aten.cudnn_convolution",
        "aten.cudnn_convolution_transpose",
    )
    evidence = (
        "aten/src/ATen/native/cudnn/ConvShared.cpp (contiguous(memory_format)), Conv_v8.cpp (run_conv_plan); "
        "workspaces seen in real snapshots: 51 KB to 128 MiB"
    )

    def effect(self, call: Call) -> Effect | None:
        """Copies before the results."""
        operands = [value for value in call.args[:3] if is_tensor(value) and value.dim() > 2]
        channels_last = any(_channels_last(operand) for operand in operands)
        steps: list[Step] = [
            Take(f"operand{number}", bytes_of(operand))
            for number, operand in enumerate(operands)
            if not (_channels_last(operand) if channels_last else operand.is_contiguous())
            and not (channels_last and operand.is_contiguous() and _either(operand))
        ]
        doubt = 2 * sum(bytes_of(operand) for operand in operands)
        return Effect((*steps, Output()) if steps else (), uncertain_bytes=doubt)


def _channels_last(tensor: Any) -> bool:
    """Whether the channels are the fastest dimension, and that is no accident of sizes of 1."""
    strides, shape = tensor.stride(), tensor.shape
    expected = 1
    for dim in (1, *reversed(range(2, tensor.dim())), 0):
        if int(shape[dim]) != 1 and int(strides[dim]) != expected:
            return False
        expected *= int(shape[dim])
    return not _either(tensor)


def _either(tensor: Any) -> bool:
    """Whether both formats are the same: one channel, or one pixel."""
    shape = tensor.shape
    return int(shape[1]) == 1 or all(int(size) == 1 for size in shape[2:])


RULE = Convolution()
