"""GPUs by NVML, through nvidia-ml-py (`pip install 'oomph[gpu]'`), which is imported as `pynvml`.

Each number is asked for by itself: one that a card, a driver or a permission does not give is None, and a GPU that does
not answer at all does not hide the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from oomph.probe.host import host
from oomph.probe.machine.listing import listed, unread
from oomph.probe.model import Gpu, Host

T = TypeVar("T")


class NvmlMachine:
    """Raises ImportError where nvidia-ml-py is not installed, and `Unavailable` where NVML does not start."""

    def __init__(self, nvml: Any = None) -> None:
        if nvml is None:
            with warnings.catch_warnings():
                # An older package of the same name warns of its end when it is imported.
                warnings.simplefilter("ignore")
                import pynvml

            nvml = pynvml
        self._nvml = nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise Unavailable(f"NVML does not start: {error}") from error

    def source(self) -> str:
        return "nvml"

    def why(self) -> str:
        return ""

    def host(self, pids: Sequence[int] = ()) -> Host:
        return host(pids)

    def gpus(self, ours: Sequence[int] = ()) -> tuple[Gpu, ...]:
        found: list[Gpu] = []
        for index, handle in enumerate(self.handles()):
            if isinstance(handle, Exception):
                found.append(Gpu(index=index, missing=f"this GPU does not answer: {handle}"))
                continue
            parts = self.parts(handle)
            found += [self._gpu(index, part, ours, handle) for part in parts or (handle,)]
        return tuple(found)

    def handles(self) -> list[Any]:
        """Each GPU's, by index; an `NVMLError` in place of one that does not answer."""
        found: list[Any] = []
        for index in range(int(self.ask("nvmlDeviceGetCount") or 0)):
            try:
                found.append(self._nvml.nvmlDeviceGetHandleByIndex(index))
            except self._nvml.NVMLError as error:
                found.append(error)
        return found

    def gpu(self, uuid: str, ours: Sequence[int] = ()) -> Gpu | None:
        """The one of this uuid ("GPU-..."), without asking any other; None where there is none, or it is cut into MIG
        devices."""
        handle = self.ask("nvmlDeviceGetHandleByUUID", uuid)
        index = None if handle is None else self.ask("nvmlDeviceGetIndex", handle)
        if index is None or self.parts(handle):
            return None
        return self._gpu(int(index), handle, ours, handle)

    def parts(self, handle: Any) -> list[Any]:
        """The MIG devices of a GPU that is cut into such."""
        mode = self.ask("nvmlDeviceGetMigMode", handle)
        if not mode or mode[0] != 1:  # [current, pending]; 1 is NVML_DEVICE_MIG_ENABLE
            return []
        most = int(self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        parts = [self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place) for place in range(most)]
        return [part for part in parts if part is not None]

    def _gpu(self, index: int, handle: Any, ours: Sequence[int], parent: Any) -> Gpu:
        memory = self.memory(handle)
        used = size(memory, "used")
        found, told = self._processes(handle, ours)
        reasons = [] if memory is not None else ["the driver does not tell this GPU's memory"]
        reasons.append(unread(found, used) if told else "the driver does not list this GPU's processes")
        return Gpu(
            index=index,
            uuid=text(self.ask("nvmlDeviceGetUUID", handle)),
            name=text(self.ask("nvmlDeviceGetName", handle)) or text(self.ask("nvmlDeviceGetName", parent)),
            capacity_bytes=size(memory, "total"),
            used_bytes=used,
            free_bytes=size(memory, "free"),
            utilization=self.utilization(handle),
            processes=found,
            missing="; ".join(reason for reason in reasons if reason),
        )

    def memory(self, handle: Any) -> Any:
        """Version 2 counts what the driver reserves apart from what is used."""
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        if version is not None:
            found = self.ask("nvmlDeviceGetMemoryInfo", handle, version=version)
            if found is not None:
                return found
        return self.ask("nvmlDeviceGetMemoryInfo", handle)

    def utilization(self, handle: Any) -> int | None:
        """Per cent of the last moments in which a kernel ran."""
        rates = self.ask("nvmlDeviceGetUtilizationRates", handle)
        return None if rates is None else int(rates.gpu)

    def _processes(self, handle: Any, ours: Sequence[int]) -> tuple[Any, bool]:
        """What computes and what draws; and whether the driver lists either."""
        lists = [
            self.ask("nvmlDeviceGetComputeRunningProcesses", handle),
            self.ask("nvmlDeviceGetGraphicsRunningProcesses", handle),
        ]
        rows = [
            (int(one.pid), None if one.usedGpuMemory is None else int(one.usedGpuMemory), "")
            for several in lists
            for one in several or ()
        ]
        named = [
            (pid, size, text(self.ask("nvmlSystemGetProcessName", pid)).rpartition("/")[2])
            for pid, size, _ in rows
        ]
        return listed(named, ours), any([several is not None for several in lists])

    def ask(self, function: str, *arguments: Any, **options: Any) -> Any:
        """What NVML answers; None where it does not know the question or does not answer."""
        ask: Callable[..., Any] | None = getattr(self._nvml, function, None)
        if ask is None:
            return None
        try:
            return ask(*arguments, **options)
        except (self._nvml.NVMLError, TypeError, AttributeError):
            # An old nvidia-ml-py does not know `version`, an old driver not the function behind it.
            return None

    def close(self) -> None:
        """Ends NVML for this process."""
        self.ask("nvmlShutdown")


class Unavailable(Exception):  # noqa: N818 - a state, named so
    """NVML or nvidia-smi is there and does not work; the text says why."""


def size(memory: Any, name: str) -> int | None:
    """A field of NVML's memory structure; None where it has none."""
    found = getattr(memory, name, None)
    return None if found is None else int(found)


def text(value: Any) -> str:
    """What NVML calls a string, bytes in old versions; "" for nothing."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
