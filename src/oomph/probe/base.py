"""The two interfaces to the live machine. Whoever records, verifies or checks knows these and no implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from oomph.probe.model import Counters, Gpu, Host


class Device(Protocol):
    """The memory of one device as this process sees it. No method raises for a device that answers oddly: what cannot
    be read stays at its default, and `Counters.missing` says so.

    `begin` and `read` cost microseconds: they run at each boundary of a phase.
    """

    @property
    def kind(self) -> str:
        """What it is: "cuda" or "cpu"."""

    @property
    def index(self) -> int:
        """The device's index as the process sees it."""

    @property
    def name(self) -> str:
        """Its name ("NVIDIA A100-SXM4-40GB"); "" while it is not known."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What does not hold of this device's numbers, a sentence each (`Header.limits`)."""

    def begin(self) -> None:
        """A new phase begins: peaks count from now on. What the script reads of peaks stays as it would be without."""

    def read(self) -> Counters:
        """The counters now; peaks since the last `begin`."""

    def whole(self) -> Counters:
        """As `read`, and what costs more: free memory of the card, this process's and others' share."""

    def stats(self) -> dict[str, Any]:
        """All of `torch.cuda.memory_stats`, flat."""

    def summary(self) -> str:
        """`torch.cuda.memory_summary`."""

    def record_history(self, max_entries: int) -> str:
        """Starts PyTorch's memory history; returns "" or a sentence that says why there is none."""

    def dump_snapshot(self, path: Path) -> str:
        """Writes a memory snapshot as PyTorch does; returns "" or a sentence that says why there is none."""

    def on_out_of_memory(self, observer: Callable[[int, int, int, int], None]) -> None:
        """`observer(device, request, device total, device free)` is called when a request fails, before the exception
        (torch._C._cuda_attach_out_of_memory_observer)."""

    def synchronize(self) -> None:
        """Waits for the device."""

    def close(self) -> None:
        """Puts back whatever was put in PyTorch's way."""


class Machine(Protocol):
    """All GPUs of this host, from outside of any training process."""

    def gpus(self, ours: Sequence[int] = ()) -> tuple[Gpu, ...]:
        """A reading of each. `ours`: process ids of the job; their children count too."""

    def host(self, pids: Sequence[int] = ()) -> Host:
        """Main memory of the host, and of `pids` with their children."""

    def source(self) -> str:
        """Who answers: "nvml", "nvidia-smi", "none"; what is missing with "none" is said by `why`."""

    def why(self) -> str:
        """Why no GPU can be read ("" where they can): the sentence says what to install."""
