"""Optimizers choose their foreach kernels by the type of the parameters; fake ones must count as what they stand for.

Without this AdamW falls back to its loop over parameters, whose temporaries are smaller: a fifth less memory than real.
Source: torch/optim/optimizer.py, `_default_to_fused_or_foreach`, `_foreach_supported_types`.
"""

from __future__ import annotations

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Adds FakeTensor to the types that foreach supports."""
    import torch.optim.optimizer as module
    from torch._subclasses.fake_tensor import FakeTensor

    types = getattr(module, "_foreach_supported_types", None)
    if types is not None and FakeTensor not in types:
        types.append(FakeTensor)
        recorder.patches.when_undone(lambda: types.remove(FakeTensor))
