"""`torch.load` of real files to the GPU: each storage is read on the host and moved, one allocation of its size.

torch moves storages (torch/serialization.py, `_cuda_deserialize`), and fake tensors have none to move. So a storage
that is asked to move only remembers where to, and the tensors that are made of it are made there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


class Moves:
    """Storages that a `torch.load` has moved to the GPU, as long as it runs."""

    def __init__(self, recorder: Recorder) -> None:
        import torch

        self._depth = 0
        self._targets: dict[int, tuple[Any, Any]] = {}
        self._moved: dict[int, Any] = {}
        storage = torch.UntypedStorage
        recorder.patches.wrap(storage, "to", self._to)
        recorder.patches.wrap(storage, "cuda", self._cuda)
        recorder.patches.wrap(torch._utils, "_rebuild_tensor", self._rebuild)  # noqa: SLF001 - what loading calls

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Inside, storages may move. Nothing is remembered afterwards."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._targets.clear()
                self._moved.clear()

    def target(self, storage: Any) -> Any:
        """The device that a storage has moved to, or its own."""
        found = self._targets.get(storage._cdata)  # noqa: SLF001 - a storage's identity
        return storage.device if found is None else found[1]

    def _to(self, original: Callable[..., Any], storage: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        device = kwargs.get("device", args[0] if args else None)
        if not self._depth or device is None or torch.device(device).type != "cuda":
            return original(storage, *args, **kwargs)
        return self._move(storage, torch.device(device))

    def _cuda(self, original: Callable[..., Any], storage: Any, device: Any = None, **kwargs: Any) -> Any:
        import torch

        if not self._depth:
            return original(storage, device, **kwargs)
        return self._move(storage, torch.device("cuda") if device is None else torch.device("cuda", device))

    def _move(self, storage: Any, device: Any) -> Any:
        import torch

        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        # Kept, so that no other storage takes its identity meanwhile.
        self._targets[storage._cdata] = (storage, device)  # noqa: SLF001
        return storage

    def _rebuild(
        self, original: Callable[..., Any], storage: Any, offset: int, size: Any, stride: Any
    ) -> Any:
        import torch

        untyped = getattr(storage, "_untyped_storage", storage)
        found = self._targets.get(untyped._cdata)  # noqa: SLF001
        tensor = original(storage, offset, size, stride)
        if found is None:
            return tensor
        key = untyped._cdata  # noqa: SLF001
        if not untyped.nbytes():
            return tensor.to(found[1])
        if key not in self._moved:
            flat = torch.empty(0, dtype=torch.uint8).set_(untyped)
            self._moved[key] = flat.to(found[1])
        whole = untyped.nbytes() - untyped.nbytes() % tensor.element_size()
        with torch.no_grad():
            typed = self._moved[key][:whole].view(tensor.dtype)
            return typed.as_strided(tuple(size), tuple(stride), offset).detach()
