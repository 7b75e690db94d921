"""Recurrent layers on a GPU go to cuDNN in a CUDA build, which then needs the GPU before any operator is dispatched
(aten/src/ATen/native/cudnn/RNN.cpp: the state of dropout). With cuDNN off for the call they take the operators that a
CPU build takes, so a trace says the same with both.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Calls LSTM, GRU and RNN without cuDNN."""
    import torch

    if torch.version.cuda is None or not hasattr(torch._C, "_set_cudnn_enabled"):  # noqa: SLF001
        return

    def without(original: Any, *args: Any, **kwargs: Any) -> Any:
        before = torch._C._get_cudnn_enabled()  # noqa: SLF001 - what torch.backends.cudnn.flags sets
        torch._C._set_cudnn_enabled(False)  # noqa: SLF001
        try:
            return original(*args, **kwargs)
        finally:
            torch._C._set_cudnn_enabled(before)  # noqa: SLF001

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        recorder.patches.wrap(torch._VF, name, without)  # noqa: SLF001 - what torch.nn.modules.rnn calls
