"""How much of a GPU is left for PyTorch's allocator."""

from __future__ import annotations

from typing import NamedTuple

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.tables import context


class Interval(NamedTuple):
    """A size that lies between `low_bytes` and `high_bytes`, and where that is from."""

    low_bytes: int
    high_bytes: int
    source: str


def context_bytes(gpu: Gpu) -> Interval:
    """What the CUDA context and loaded kernels take outside PyTorch's allocator, for one process without NCCL.

    The interval is the same for every CUDA GPU, because too few have been measured to tell them apart. Raises
    UsageError for a GPU of another vendor, of which nothing is known.
    """
    if not gpu.is_cuda:
        raise UsageError(
            f"{gpu.name} is a GPU of {gpu.vendor}: what its driver takes is not known. "
            "Name an NVIDIA GPU, or give the memory that PyTorch can have."
        )
    known = context()
    return Interval(known.low_bytes, known.high_bytes, known.source)


def available_bytes(gpu: Gpu) -> Interval:
    """What PyTorch can have of the GPU when nothing else runs on it: its total less the context.

    The lower end takes the least total and the most context, so what fits in it fits. Raises UsageError for a GPU of
    another vendor than NVIDIA, and for one whose total is not known.
    """
    outside = context_bytes(gpu)
    if not gpu.total_bytes:
        raise UsageError(
            f"How much memory {gpu.name} has is not known: give the memory that PyTorch can have."
        )
    most = max(gpu.total_bytes, gpu.total_high_bytes)
    return Interval(
        gpu.total_bytes - outside.high_bytes,
        most - outside.low_bytes,
        f"the GPU's total ({gpu.source}) less the CUDA context and loaded kernels ({outside.source})",
    )
