"""What `PYTORCH_ALLOC_CONF` sets, as far as it decides where blocks go."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.memory.allocator.parsing import parse
from oomph.memory.allocator.sizes import LARGE_SEGMENT_BYTES, UNLIMITED_BYTES


@dataclass(frozen=True)
class AllocatorSettings:
    """Settings of the allocator, and the PyTorch version whose rules apply. Sizes are bytes.

    `max_split_size_bytes` None is unlimited, `garbage_collection_threshold` 0 is off, an entry of
    `roundup_power2_divisions` 0 is off (16 entries, or none at all), `fraction` None is no limit. `other` are the keys
    that do not decide where blocks go, with their values as written.
    """

    expandable_segments: bool = False
    max_split_size_bytes: int | None = None
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = ()
    large_segment_size_bytes: int = LARGE_SEGMENT_BYTES
    max_non_split_rounding_bytes: int = LARGE_SEGMENT_BYTES
    fraction: float | None = None
    throw_on_cudamalloc_oom: bool = False
    torch: tuple[int, int] = (2, 13)
    backend: str = "native"
    other: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str, torch: tuple[int, int] = (2, 13)) -> AllocatorSettings:
        """Settings from the text of `PYTORCH_ALLOC_CONF`, as that PyTorch version reads it.

        Raises SettingsError with PyTorch's reason where PyTorch would.
        """
        found = parse(text, torch)
        if found.get("max_split_size_bytes") == UNLIMITED_BYTES:
            found["max_split_size_bytes"] = None
        return cls(**found, torch=torch)

    @property
    def private_pools_expand(self) -> bool:
        """Whether expandable segments serve private pools too; PyTorch 2.1 kept them out."""
        return self.torch >= (2, 5)

    @property
    def least_divisions(self) -> int:
        """From which number of divisions on a size is rounded: PyTorch 2.0 and 2.1 tested `> 0`, later `> 1`."""
        return 1 if self.torch < (2, 2) else 2

    def limit_bytes(self, device_total_bytes: int) -> int | None:
        """What `fraction` allows of a device of this size; None when there is no limit.

        PyTorch 2.0 to 2.4 limited even at 1.0, which later lifts the limit; versions before 2.13 truncated.
        """
        if self.fraction is None or (self.fraction == 1.0 and self.torch >= (2, 5)):
            return None
        allowed = self.fraction * device_total_bytes
        return round(allowed) if self.torch >= (2, 13) else int(allowed)
