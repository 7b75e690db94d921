"""Copies between the GPU and the CPU go in one piece: what lies in pieces on the GPU is gathered first."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, is_tensor
from oomph.tracing.kernels.rule import Call, Effect, Take


class Copies:
    """A source on the GPU that is strided, or a target there that is, has a contiguous twin for the copy. On one device
    the copy kernel reads and writes any layout."""

    name = "copies"
    operators = ("aten._to_copy", "aten.copy_")
    evidence = (
        "aten/src/ATen/native/cuda/Copy.cu (copy_requires_temporaries, copy_kernel_cuda); seen in real snapshots "
        "(empty_like in copy_)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The twin, where the two sides are on different devices."""
        if len(call.args) > 1 and is_tensor(call.args[1]):
            target, source = call.args[0], call.args[1]
            if (target.device.type == "cpu") == (source.device.type == "cpu"):
                return None
            if (
                tuple(target.stride()) == tuple(source.stride())
                and _dense(source)
                and target.dtype == source.dtype
            ):
                return None
            here = source if target.device.type == "cpu" else target
            return None if here.is_contiguous() else Effect((Take("twin", bytes_of(here)),))
        device = call.kwargs.get("device")
        source = call.args[0]
        if device is None or str(device) != "cpu" or source.device.type == "cpu" or _dense(source):
            return None
        return Effect((Take("twin", bytes_of(source)),))


def _dense(tensor: Any) -> bool:
    """Whether the elements fill a piece of memory, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if int(size) != 1:
            if int(stride) != expected:
                return False
            expected *= int(size)
    return True


RULE = Copies()
