"""`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` in inference: one fused operator each, of which a trace
knows neither shapes nor memory (torch/nn/modules/transformer.py, "fast path"). They are traced as in training.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

SENTENCE = (
    "Without gradients torch.nn's transformer layers are traced operator by operator, as in training; what the fused "
    "operators take that PyTorch has there is not known."
)


def install(recorder: Recorder) -> None:
    """Says that the fast path is switched off."""
    import torch

    backend = getattr(torch.backends, "mha", None)
    if backend is None or not hasattr(backend, "get_fastpath_enabled"):
        return

    def enabled(original: Any) -> bool:
        if original() and not torch.is_grad_enabled():
            recorder.assume(SENTENCE)
        return False

    recorder.patches.wrap(backend, "get_fastpath_enabled", enabled)
