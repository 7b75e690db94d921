"""safetensors files of fake tensors: a valid header before a hole of the right size, which takes no room on disk.

Whoever reads the file finds the names, dtypes and shapes, and zeros. Format: the README of safetensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase
from oomph.tracing.suppress.everywhere import everywhere
from oomph.tracing.suppress.files import overlay_of

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: safetensors' names of torch's dtypes.
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
}


def install(recorder: Recorder) -> None:
    """Replaces `safetensors.torch.save_file`, and lets readers find what was written."""
    overlay = overlay_of(recorder)

    def save_file(
        _: Callable[..., Any], tensors: Mapping[str, Any], filename: Any, metadata: Any = None, **__: Any
    ) -> None:
        with recorder.phase(Phase.SAVE), Path(filename).open("wb") as stream:
            write(stream, tensors, metadata)

    def safe_open(original: Callable[..., Any], filename: Any, *args: Any, **kwargs: Any) -> Any:
        return original(overlay.reading(os.fspath(filename)), *args, **kwargs)

    def torch_hook(module: ModuleType) -> None:
        everywhere(recorder, module, "save_file", save_file)

    recorder.patches.when_imported(
        "safetensors", lambda module: everywhere(recorder, module, "safe_open", safe_open)
    )
    recorder.patches.when_imported("safetensors.torch", torch_hook)


def write(stream: Any, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> None:
    """Writes the header, the values of tensors that have some, and holes for those that have none."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    places, at = [], 0
    for name, tensor in sorted(tensors.items()):
        size = int(tensor.numel()) * int(tensor.element_size())
        dtype = str(tensor.dtype).rpartition(".")[2]
        header[name] = {
            "dtype": _NAMES.get(dtype, dtype.upper()),
            "shape": list(tensor.shape),
            "data_offsets": [at, at + size],
        }
        places.append((at, tensor))
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for place, tensor in places:
        values = _values(tensor)
        if values:
            stream.seek(8 + len(text) + place)
            stream.write(values)
    stream.truncate(8 + len(text) + at)


def _values(tensor: Any) -> bytes:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor) or tensor.device.type != "cpu" or not tensor.numel():
        return b""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return bytes(flat.numpy().tobytes())
