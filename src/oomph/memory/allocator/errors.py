"""Errors of the simulated allocator."""

from __future__ import annotations

from oomph.errors import OomphError, UsageError
from oomph.units import format_bytes


class SettingsError(UsageError):
    """An allocator setting that PyTorch refuses; the text gives PyTorch's reason."""


class ReplayError(OomphError):
    """The caller asked for something that no allocator can do: free an address that is not allocated, for example."""


class DeviceOutOfMemory(OomphError):  # noqa: N818 - the word that PyTorch uses
    """No memory for a request, after everything that could be released was released. All numbers are bytes.

    `rejected`: refused because of `throw_on_cudamalloc_oom` and the cap, with nothing released; PyTorch records no
    OOM then.
    """

    def __init__(
        self,
        *,
        requested: int,
        rounded: int,
        segment: int,
        free: int | None,
        reserved: int,
        allocated: int,
        rejected: bool = False,
    ) -> None:
        room = "unknown" if free is None else format_bytes(free)
        super().__init__(
            f"Tried to allocate {format_bytes(segment)} for a request of {format_bytes(requested)}; free on the "
            f"device: {room}, reserved: {format_bytes(reserved)}, allocated: {format_bytes(allocated)}."
        )
        self.requested_bytes = requested
        self.rounded_bytes = rounded
        self.segment_bytes = segment
        self.free_bytes = free
        self.reserved_bytes = reserved
        self.allocated_bytes = allocated
        self.rejected = rejected
