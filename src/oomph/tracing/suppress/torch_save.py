"""`torch.save` without the bytes: what was saved can be loaded again in the same run, values of fake tensors apart.

The real one copies CUDA storages to the host, which takes no device memory; the real `torch.load` makes each storage
on the host and moves it to where it was, or to `map_location`: one allocation of the storage's size
(torch/serialization.py, `_save`, `_load`, `_cuda_deserialize`). Both are kept here.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase
from oomph.tracing.suppress.torch_load import Moves

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: The first bytes of what is written in place of a checkpoint.
MAGIC = b"oomph saved tensors 1\n"


@dataclass(frozen=True)
class _Saved:
    """A tensor without its values. `storage` tells storages of one file apart; sizes are elements but for `nbytes`."""

    storage: int
    nbytes: int
    dtype: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: str
    requires_grad: bool
    parameter: bool


def install(recorder: Recorder) -> None:
    """Replaces `torch.save` and `torch.load`, and leaves TorchScript and ONNX files out."""
    recorder.patches.when_imported("torch", lambda module: _install(recorder, module))


def _install(recorder: Recorder, torch: Any) -> None:
    files = _Files(recorder)
    for name, wrapper in (("save", files.save), ("load", files.load)):
        recorder.patches.wrap(torch.serialization, name, wrapper)
        recorder.patches.set(torch, name, getattr(torch.serialization, name))

    def left_out(_: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        path = kwargs.get("f") or next(
            (each for each in args if isinstance(each, str | os.PathLike)), "a file"
        )
        recorder.suppress(f"write {os.fspath(path) if isinstance(path, os.PathLike) else path}")

    recorder.patches.wrap(torch.jit, "save", left_out)
    recorder.patches.when_imported(
        "torch.onnx", lambda module: recorder.patches.wrap(module, "export", left_out)
    )


class _Files:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.moves = Moves(recorder)

    def save(self, original: Callable[..., Any], obj: Any, f: Any, *_: Any, **kwargs: Any) -> None:
        import torch

        storage = getattr(obj, "_untyped_storage", obj)  # the old kind warns whoever asks it for anything
        if isinstance(storage, torch.UntypedStorage) and storage.device.type == "cpu":
            # `pickle` asks for it, of each real tensor (torch/storage.py, __reduce__).
            original(obj, f, *_, **kwargs)
            return
        with self.recorder.phase(Phase.SAVE):
            buffer = io.BytesIO()
            buffer.write(MAGIC)
            kept: list[Any] = []
            try:
                _pickler(buffer, original, kwargs.get("pickle_protocol", 2), kept).dump(obj)
            finally:
                kept.clear()
        if hasattr(f, "write"):
            f.write(buffer.getbuffer())
            return
        with Path(f).open("wb") as stream:
            stream.write(buffer.getbuffer())

    def load(
        self, original: Callable[..., Any], f: Any, map_location: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        head = _head(f)
        if head != MAGIC:
            with self.recorder.phase(Phase.LOAD), self.moves.loading():
                return original(f, map_location, *args, **kwargs)
        with self.recorder.phase(Phase.LOAD):
            if hasattr(f, "read"):
                return self._loaded(f, map_location, original)
            with Path(f).open("rb") as stream:
                return self._loaded(stream, map_location, original)

    def _loaded(self, stream: Any, map_location: Any, original: Callable[..., Any]) -> Any:
        stream.seek(len(MAGIC), io.SEEK_CUR)
        storages: dict[int, Any] = {}
        try:
            with self.moves.loading():
                return _unpickler(self.recorder, stream, map_location, original, storages, self.moves).load()
        finally:
            storages.clear()  # the class below is a cycle, which would hold them until the next collection


def _head(f: Any) -> bytes | None:
    """The first bytes of a file, or of an open one from where it stands."""
    if hasattr(f, "read"):
        if not (hasattr(f, "seek") and hasattr(f, "tell")):
            return None
        at = f.tell()
        head = f.read(len(MAGIC))
        f.seek(at)
        return bytes(head) if isinstance(head, bytes | bytearray) else None
    try:
        with Path(f).open("rb") as stream:
            return stream.read(len(MAGIC))
    except (OSError, TypeError):
        return None  # the real one says what is wrong


def _is_fake(tensor: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.device.type == "cuda"


def _pickler(buffer: io.BytesIO, save: Callable[..., Any], protocol: int, kept: list[Any]) -> pickle.Pickler:
    """`kept` takes the storages that were numbered, so that no other one gets the number of one that is gone."""
    import torch

    storages: dict[int, int] = {}

    class Pickler(pickle.Pickler):
        """Tensors are described if they are fake, and saved by the real function if they are not."""

        def persistent_id(self, obj: Any) -> Any:
            if not isinstance(obj, torch.Tensor) or hasattr(obj, "__tensor_flatten__"):
                return None  # a wrapper (DTensor) is pickled by its own way, the tensors in it by this one
            if not _is_fake(obj):
                inner = io.BytesIO()
                save(obj, inner)
                return inner.getvalue()
            storage = obj.untyped_storage()
            kept.append(storage)
            key = storages.setdefault(storage._cdata, len(storages))  # noqa: SLF001 - a storage's identity
            return _Saved(
                storage=key,
                nbytes=int(storage.nbytes()),
                dtype=obj.dtype,
                size=tuple(obj.size()),
                stride=tuple(obj.stride()),
                offset=int(obj.storage_offset()),
                device=str(obj.device),
                requires_grad=bool(obj.requires_grad),
                parameter=isinstance(obj, torch.nn.Parameter),
            )

    return Pickler(buffer, protocol=max(protocol, 2))


def _unpickler(
    recorder: Recorder,
    stream: Any,
    map_location: Any,
    load: Callable[..., Any],
    storages: dict[int, Any],
    moves: Moves,
) -> pickle.Unpickler:
    import torch

    class Unpickler(pickle.Unpickler):
        """Storages are made once each, where they belong."""

        def persistent_load(self, pid: Any) -> Any:
            if isinstance(pid, bytes):
                return load(io.BytesIO(pid), map_location=map_location, weights_only=False)
            flat = storages.get(pid.storage)
            if flat is None:
                flat = storages[pid.storage] = _bytes_on(
                    recorder, _place(pid.device, map_location, moves), pid.nbytes
                )
            with torch.no_grad():
                whole = pid.nbytes - pid.nbytes % pid.dtype.itemsize
                typed = flat[:whole].view(pid.dtype)
                tensor = typed.as_strided(pid.size, pid.stride, pid.offset).detach()
            if pid.parameter:
                return torch.nn.Parameter(tensor, requires_grad=pid.requires_grad)
            return tensor.requires_grad_(pid.requires_grad)

    return Unpickler(stream)


def _bytes_on(recorder: Recorder, device: Any, nbytes: int) -> Any:
    import torch

    if device.type == "cpu":
        from oomph.tracing.libraries.fakes import host_tensor

        return host_tensor(recorder, (nbytes,), torch.uint8)
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def _place(device: str, map_location: Any, moves: Moves) -> Any:
    """Where a storage that was on `device` goes (torch/serialization.py, `_get_restore_location`)."""
    import torch

    if map_location is None:
        return torch.device(device)
    if isinstance(map_location, dict):
        return torch.device(map_location.get(device, device))
    if isinstance(map_location, str | torch.device | int):
        return torch.device(map_location)
    found = map_location(torch.UntypedStorage(0), device)
    return torch.device(device) if found is None else moves.target(found)
