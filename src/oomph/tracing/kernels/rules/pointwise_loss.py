"""Losses that are reduced: the loss of every element first."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import argument, numel
from oomph.tracing.kernels.iteration import reduction
from oomph.tracing.kernels.reduce_launch import Kernel, scratch
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take

_REDUCTION = {
    "aten.mse_loss": 2,
    "aten.smooth_l1_loss": 2,
    "aten.huber_loss": 2,
    "aten.binary_cross_entropy": 3,
    "aten.binary_cross_entropy_with_logits": 4,
}


class PointwiseLoss:
    """Mean or sum: mse_loss and smooth_l1_loss make their scalar as large as the input (and the script keeps that with
    the loss), besides a temporary of that size; binary_cross_entropy reduces within its result; the others need one
    temporary, or two with logits. No reduction: the result is the loss."""

    name = "pointwise_loss"
    operators = tuple(_REDUCTION)
    evidence = (
        "aten/src/ATen/native/Loss.cpp (mse_loss and smooth_l1_loss: meta functions that resize a full result to a "
        "scalar; huber_loss; binary_cross_entropy_with_logits), cuda/Loss.cu; the size of the CPU's result shows it"
    )

    def effect(self, call: Call) -> Effect | None:
        """Around the scalar."""
        packet = str(call.op).rsplit(".", 1)[0]
        elements, itemsize = numel(call.args[0].shape), int(call.args[0].dtype.itemsize)
        size = elements * itemsize
        reduced = int(argument(call, _REDUCTION[packet], "reduction", 1)) != 0
        if not elements:
            return None
        if packet == "aten.binary_cross_entropy_with_logits":
            steps: list[Step] = [Take("log_sigmoid", size)]
            return Effect((*steps, Take("loss", size), Output()) if reduced else (*steps, Output()))
        if not reduced:
            return None
        if packet == "aten.huber_loss":
            return Effect((Take("loss", size), Output()))
        steps = [Output(0, bytes=size)]
        if packet != "aten.binary_cross_entropy":
            steps.append(Take("loss", size))
        accumulated = max(4, itemsize)
        whole = reduction([elements], [1], (), itemsize, [itemsize])
        launch = (
            scratch(whole, Kernel(itemsize, accumulated), call.gpu, call.torch)
            if whole.fits_32_bits
            else None
        )
        if launch is not None:
            steps += [Take("buffer", launch.buffer_bytes), Take("counters", launch.semaphore_bytes)]
        return Effect(tuple(steps))


RULE = PointwiseLoss()
