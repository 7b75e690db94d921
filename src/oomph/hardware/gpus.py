"""The GPUs that oomph knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.hardware.costs import GpuCosts


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU.

    `capability` is CUDA's compute capability ((0, 0): not a CUDA device), `multiprocessors` the number of SMs,
    `threads_per_multiprocessor` how many threads one can hold; `total_bytes` what CUDA says the device has, the least
    that was seen: it differs by driver, up to `total_high_bytes`. 0: not known. `source` says where the numbers are
    from.

    `aliases` are names by which it is found, the one to type first; `memory_gb` is what the vendor calls its memory;
    `smi_total_mib` what nvidia-smi has shown as its total. `target` is what compilers call it (sm_80, gfx942). `kind`
    is datacenter, workstation or consumer. With `unified`, the memory is the computer's own, and how much of it is
    free for the GPU depends on the rest.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    threads_per_multiprocessor: int
    total_bytes: int
    source: str = ""
    total_high_bytes: int = 0
    aliases: tuple[str, ...] = ()
    vendor: str = "NVIDIA"
    kind: str = ""
    arch: str = ""
    target: str = ""
    memory_gb: int = 0
    smi_total_mib: tuple[int, ...] = ()
    device_name: str = ""
    unified: bool = False
    note: str = ""

    @property
    def is_cuda(self) -> bool:
        """Whether CUDA runs on it: what is known of kernels and of the allocator's sizes speaks of such GPUs only."""
        return self.vendor == "NVIDIA"

    @property
    def short_name(self) -> str:
        """The name to type."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def costs(self) -> GpuCosts:
        """What the vendor publishes of its speed."""
        from oomph.hardware.costs import costs_of  # a table of its own, which most look-ups do not need

        return costs_of(self.short_name)

    def tflops(self, dtype: str) -> float | None:
        """10**12 operations a second at most, dense, with operands of `dtype` (fp32, tf32, fp16, bf16, fp8); None where
        the GPU has no such units, or it is not known."""
        return self.costs.tflops.get(dtype)

    @property
    def bandwidth_bytes(self) -> int | None:
        """Bytes a second of its own memory at most; None: not known."""
        return self.costs.bandwidth_bytes
