"""`torch.nn.init.trunc_normal_`: in place up to torch 2.12, with temporaries and a loop over rejected values from 2.13.

Evidence: real snapshots of torch 2.6 to 2.10 show no allocation inside it; torch/nn/init.py of 2.13 draws again as long
as any value lies outside, through masks of the parameter's size.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: The first version with the loop.
_LOOP = (2, 13)


def install(recorder: Recorder) -> None:
    """Where the trace speaks for an older torch, filling a parameter takes no memory."""
    if recorder.settings.torch >= _LOOP:
        return
    import torch

    def fill(_original: Any, tensor: Any, *_args: Any, **_kwargs: Any) -> Any:
        # The values do not matter on fake tensors; what was written in place stays in place.
        with torch.no_grad():
            return tensor.uniform_()

    recorder.patches.wrap(torch.nn.init, "trunc_normal_", fill)
