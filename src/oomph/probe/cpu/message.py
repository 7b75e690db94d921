"""The message of torch.OutOfMemoryError, as a card of this size would give it.

Source of the wording: c10/cuda/CUDACachingAllocator.cpp, `DeviceCachingAllocator::malloc`. The last words are oomph's.
"""

from __future__ import annotations

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.units import format_bytes

#: Stands at the end, where nobody looks for numbers.
SIMULATED = "(simulated by oomph: the tensors of this process on the CPU, as if on a card of that capacity)"


def message(error: DeviceOutOfMemory, allocator: CachingAllocator) -> str:
    """The text for a request that failed. `allocator` is as the request left it."""
    variable = "PYTORCH_ALLOC_CONF" if allocator.settings.torch >= (2, 9) else "PYTORCH_CUDA_ALLOC_CONF"
    limit = f"{format_bytes(allocator.limit)} allowed; " if allocator.limited else ""
    return (
        f"CUDA out of memory. Tried to allocate {format_bytes(error.segment_bytes)}. GPU 0 has a total capacity of "
        f"{format_bytes(allocator.capacity)} of which {format_bytes(max(error.free_bytes or 0, 0))} is free. "
        f"Including non-PyTorch memory, this process has {format_bytes(error.reserved_bytes)} memory in use. {limit}"
        f"Of the allocated memory {format_bytes(error.allocated_bytes)} is allocated by PyTorch, and "
        f"{format_bytes(error.reserved_bytes - error.allocated_bytes)} is reserved by PyTorch but unallocated. "
        f"If reserved but unallocated memory is large try setting {variable}=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management  "
        f"(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables) {SIMULATED}"
    )
