"""safetensors files that the script itself reads: large tensors keep their shape and dtype, and no data are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during
from oomph.tracing.libraries.fakes import host_tensor
from oomph.tracing.libraries.weights import header

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Files above this many bytes are not read.
READ_BYTES = 64 << 20


def install(recorder: Recorder) -> None:
    """`safetensors.torch.load_file` of a large file reads its header alone."""

    def load_file(original: Callable[..., Any], filename: Any, device: Any = "cpu", **kwargs: Any) -> Any:
        import torch

        if Path(filename).stat().st_size <= READ_BYTES:
            return original(filename, device, **kwargs)
        recorder.assume("large safetensors files are not read: their headers give names, shapes and dtypes")
        tensors = {
            key: host_tensor(recorder, shape, getattr(torch, dtype))
            for key, (shape, dtype) in header(str(filename)).items()
        }
        if torch.device(device).type == "cpu":
            return tensors
        return {key: tensor.to(device) for key, tensor in tensors.items()}

    def hook(module: ModuleType) -> None:
        during.wrap(recorder, module, "load_file", load_file)

    recorder.patches.when_imported("safetensors.torch", hook)
