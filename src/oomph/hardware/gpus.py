"""The GPUs that oomph knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU.

    `capability` is CUDA's compute capability, `multiprocessors` the number of SMs, `threads_per_multiprocessor` how
    many threads one can hold; `total_bytes` what CUDA says the device has. `source` says where the numbers are from.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    threads_per_multiprocessor: int
    total_bytes: int
    source: str = ""
