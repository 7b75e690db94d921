"""`torch.set_default_tensor_type("torch.cuda.FloatTensor")`: how scripts from before `torch.set_default_device` put
everything on the GPU. The type is not there in a build without CUDA; its dtype and its device are set instead.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Replaces `torch.set_default_tensor_type`."""
    import torch

    on_gpu = False

    def set_type(original: Any, kind: Any) -> None:
        nonlocal on_gpu
        name = kind if isinstance(kind, str) else str(getattr(kind, "__name__", kind))
        gpu = name.startswith("torch.cuda.") or getattr(kind, "is_cuda", False) is True
        if not gpu:
            original(kind)
            if on_gpu:
                on_gpu = False
                torch.set_default_device(None)
            return
        dtype = getattr(getattr(torch.cuda, name.rpartition(".")[2], None), "dtype", None)
        if dtype is None or not dtype.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        torch.set_default_dtype(dtype)
        torch.set_default_device("cuda")
        if not on_gpu:
            on_gpu = True
            recorder.patches.when_undone(lambda: torch.set_default_device(None))

    recorder.patches.wrap(torch, "set_default_tensor_type", set_type)
