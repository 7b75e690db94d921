"""The message of torch.OutOfMemoryError, as the simulated card would give it.

Source of the wording: c10/cuda/CUDACachingAllocator.cpp, `DeviceCachingAllocator::malloc`; scripts and libraries look
for its words (transformers' `auto_find_batch_size` for "CUDA out of memory.").
"""

from __future__ import annotations

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.tracing.settings import TraceSettings
from oomph.units import format_bytes


def message(
    error: DeviceOutOfMemory, device: int, settings: TraceSettings, allocator: CachingAllocator
) -> str:
    """The text for a request that failed on `cuda:device`."""
    total = settings.device_bytes or settings.capacity_bytes or 0
    capacity = settings.capacity_bytes or 0
    outside = max(total - capacity, 0)
    variable = "PYTORCH_ALLOC_CONF" if settings.torch >= (2, 9) else "PYTORCH_CUDA_ALLOC_CONF"
    limit = f"{format_bytes(allocator.limit)} allowed; " if allocator.limited else ""
    reserved, allocated = allocator.reserved_bytes, allocator.allocated_bytes
    return (
        f"CUDA out of memory. Tried to allocate {format_bytes(error.segment_bytes)}. GPU {device} has a total capacity "
        f"of {format_bytes(total)} of which {format_bytes(error.free_bytes or 0)} is free. Including non-PyTorch "
        f"memory, this process has {format_bytes(reserved + outside)} memory in use. {limit}Of the allocated memory "
        f"{format_bytes(allocated)} is allocated by PyTorch, and {format_bytes(reserved - allocated)} is reserved by "
        "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        f"{variable}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
