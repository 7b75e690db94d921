"""`UntypedStorage.resize_`: how FSDP2 frees its parameters and makes room for them again. No operator tells of it."""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder, mode: Any) -> None:
    """Counts what a storage gains or loses when it is resized."""
    import torch

    def resize(original: Any, storage: Any, size: int) -> Any:
        result = original(storage, size)
        if not recorder.suspensions and recorder.storages.known(storage):
            mode.kernels.resized(storage)
        return result

    recorder.patches.wrap(torch.UntypedStorage, "resize_", resize)
