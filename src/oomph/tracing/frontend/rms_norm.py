"""`rms_norm` on a GPU: one kernel from torch 2.9 on, operators one after the other before.

Evidence: the wheel of 2.8.0 declares no CUDA kernel for it (include/ATen/ops/_fused_rms_norm_native.h), that of 2.10.0
does; nobody looked at 2.9, which is taken to have it. The steps before are those that 2.6.0 and 2.4.1 run: 2.6 computes
in fp32 and goes back to the input's type before the weight, 2.4 computes in the input's type. 2.5 is taken as 2.6.
An installed torch that is older than 2.9 has no such kernel; its own steps then stand for the kernel, which takes less.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

_FUSED = (2, 9)
_IN_FLOAT = (2, 5)


def install(recorder: Recorder) -> None:
    """Takes the steps of the version that the trace speaks for."""
    import torch

    version = recorder.settings.torch
    if version >= _FUSED or not hasattr(torch, "rms_norm") or not hasattr(torch.ops.aten, "_fused_rms_norm"):
        return

    def steps(
        original: Any, x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
    ) -> Any:
        if not x.is_cuda:
            return original(x, normalized_shape, weight, eps)
        if eps is None:
            eps = torch.finfo(x.dtype).eps
        wide = x.float() if version >= _IN_FLOAT else x
        dimensions = tuple(range(-len(normalized_shape), 0))
        factor = wide.pow(2).mean(dimensions, keepdim=True).add_(eps).rsqrt()
        y = wide.mul(factor).type_as(x)
        return y if weight is None else y.mul(weight)

    recorder.patches.wrap(torch, "rms_norm", steps)
