"""Addresses of fake tensors: what shares memory has one address, what does not has another.

torch gives 0 for all of them (with a warning), and code that looks for tied weights by their addresses, as saving a
model does, takes every weight for the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """`data_ptr` of a fake tensor, and of its storage, is the simulated address; without one, its storage's own."""
    import torch

    def of_storage(storage: Any) -> int:
        block = recorder.storages.held(storage) if recorder.storages.known(storage) else None
        return int(block.address) if block is not None and block.address else int(storage._cdata)  # noqa: SLF001

    def data_ptr(original: Callable[..., int], tensor: Any) -> int:
        if not hasattr(tensor, "fake_device"):
            return original(tensor)
        if not tensor.numel():
            return 0
        return of_storage(tensor.untyped_storage()) + int(tensor.storage_offset()) * int(
            tensor.element_size()
        )

    def storage_ptr(original: Callable[..., int], storage: Any) -> int:
        if storage.device.type != "meta":
            return original(storage)
        return of_storage(storage)

    recorder.patches.wrap(torch.Tensor, "data_ptr", data_ptr)
    recorder.patches.wrap(torch.UntypedStorage, "data_ptr", storage_ptr)
