"""`tensor.data = other` and `data_ptr()`, by which FSDP1 gives parameters new memory and compares what they have.

A FakeTensor remembers the device that it was made for, and must follow its new data; torch's own setter changes
everything else. Its address is the one that the simulated allocator gave.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Lets fake tensors take the device of the data that they are given, and have addresses."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    inherited = torch._C.TensorBase.data  # noqa: SLF001 - where torch defines it

    def get(tensor: Any) -> Any:
        return inherited.__get__(tensor)

    def put(tensor: Any, data: Any) -> None:
        if type(data) is FakeTensor and type(tensor) is torch.Tensor:
            # A real tensor (a buffer on the CPU) becomes a fake one: the object stays, what it is changes.
            _exchange(torch, tensor, data.detach())
            return
        inherited.__set__(tensor, data)
        if isinstance(tensor, FakeTensor):
            tensor.fake_device = data.device

    recorder.patches.set(torch.Tensor, "data", property(get, put))

    def address(storage: Any) -> int:
        if recorder.storages.known(storage):
            block = recorder.storages.held(storage)
            return 0 if block is None else block.address
        return storage._cdata if storage.nbytes() else 0  # noqa: SLF001 - an identity, for memory of the host

    def of_storage(original: Any, storage: Any) -> int:
        return address(storage) if storage.device.type == "meta" else int(original(storage))

    def of_tensor(original: Any, tensor: Any) -> int:
        if not isinstance(tensor, FakeTensor):
            return int(original(tensor))
        start = address(tensor.untyped_storage())
        return start + tensor.storage_offset() * tensor.element_size() if start else 0

    recorder.patches.wrap(torch.UntypedStorage, "data_ptr", of_storage)
    recorder.patches.wrap(torch.Tensor, "data_ptr", of_tensor)


def _exchange(torch: Any, one: Any, other: Any) -> None:
    """As torch.utils.swap_tensors, which refuses a tensor that weak references point to: FakeTensorMode's own memory of
    what it made fake is such."""
    for name in ("__class__", "__dict__"):
        kept = getattr(one, name)
        setattr(one, name, getattr(other, name))
        setattr(other, name, kept)
    torch._C._swap_tensor_impl(one, other)  # noqa: SLF001 - what swap_tensors calls
