"""What a driver tells of each GPU beside its memory: modes, errors, who is on it. Read once, by who checks a machine;
recording has no need of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from oomph.probe.machine.nvml import NvmlMachine, size, text

#: NVML_MEMORY_ERROR_TYPE_UNCORRECTED; NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC; nvmlComputeMode_t as nvidia-smi prints it;
#: nvmlDriverModel_t (nvml.h).
_UNCORRECTED, _VOLATILE, _AGGREGATE = 1, 0, 1
_COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}
#: The driver that brought nvmlDeviceGetMemoryInfo_v2.
_APART = 510
_PROFILE = re.compile(r"\bMIG (\S+)\Z")


@dataclass(frozen=True)
class OnCard:
    """A process on a GPU. `kind` is C (computes), G (draws) or C+G."""

    pid: int
    used_bytes: int | None
    name: str
    kind: str


@dataclass(frozen=True)
class Part:
    """A MIG device."""

    profile: str
    total_bytes: int | None
    uuid: str


@dataclass(frozen=True)
class CardDetails:
    """One GPU; sizes are bytes, None and "" are "not told". `processes` is None where the driver lists none at all.
    `missing` says why a card that is there told nothing."""

    index: int
    uuid: str = ""
    bus_id: str = ""
    name: str = ""
    capability: tuple[int, int] | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    parts: tuple[Part, ...] = ()
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    compute_mode: str = ""
    display_active: bool | None = None
    driver_model: str = ""
    processes: tuple[OnCard, ...] | None = None
    missing: str = ""


@dataclass(frozen=True)
class MachineDetails:
    """All GPUs, the driver's version, and the highest CUDA version that it knows ("12.4")."""

    source: str
    driver: str = ""
    cuda: str = ""
    cards: tuple[CardDetails, ...] = ()


class Describes(Protocol):
    """Who can describe the GPUs of this host."""

    def details(self) -> MachineDetails:
        """A reading. What a card does not tell does not hide the rest."""


class NvmlDetails:
    """By NVML. Raises as `NvmlMachine` does."""

    def __init__(self, nvml: Any = None) -> None:
        self._machine = NvmlMachine(nvml)

    def details(self) -> MachineDetails:
        machine = self._machine
        number = machine.ask("nvmlSystemGetCudaDriverVersion_v2")
        driver = text(machine.ask("nvmlSystemGetDriverVersion"))
        return MachineDetails(
            source="NVML",
            driver=driver,
            # 1000 * major + 10 * minor
            cuda=f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else "",
            cards=tuple(self._card(index, handle, driver) for index, handle in enumerate(machine.handles())),
        )

    @staticmethod
    def _mixes(driver: str) -> bool:
        """Whether version 1 of memory info counts what the driver keeps for itself as used: since 510, which brought
        version 2, where the two stand apart."""
        major = driver.partition(".")[0]
        return not major.isdecimal() or int(major) >= _APART

    def _card(self, index: int, handle: Any, driver: str) -> CardDetails:
        if isinstance(handle, Exception):
            return CardDetails(index, missing=f"this GPU does not answer: {handle}")
        ask = self._machine.ask
        memory = self._machine.memory(handle)
        mig = _first(ask("nvmlDeviceGetMigMode", handle))
        rows = ask("nvmlDeviceGetRemappedRows", handle)  # [corrected, uncorrected, pending, failed]
        told = rows is not None and len(rows) >= 4
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        reserved = size(memory, "reserved")
        return CardDetails(
            index=index,
            uuid=text(ask("nvmlDeviceGetUUID", handle)),
            bus_id=text(getattr(ask("nvmlDeviceGetPciInfo", handle), "busId", "")),
            name=text(ask("nvmlDeviceGetName", handle)),
            capability=(int(capability[0]), int(capability[1])) if capability else None,
            total_bytes=size(memory, "total"),
            used_bytes=None if reserved is None and self._mixes(driver) else size(memory, "used"),
            free_bytes=size(memory, "free"),
            reserved_bytes=reserved,
            utilization=self._machine.utilization(handle),
            persistence=_flag(ask("nvmlDeviceGetPersistenceMode", handle)),
            mig=_flag(mig),
            parts=tuple(self._part(part) for part in self._machine.parts(handle)),
            ecc=_flag(_first(ask("nvmlDeviceGetEccMode", handle))),
            ecc_uncorrected=self._errors(handle),
            remap_pending=_flag(rows[2])
            if told
            else _flag(ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)),
            remap_failed=_flag(rows[3]) if told else None,
            compute_mode=_COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle), ""),
            display_active=_flag(ask("nvmlDeviceGetDisplayActive", handle)),
            driver_model=_DRIVER_MODELS.get(ask("nvmlDeviceGetCurrentDriverModel", handle), ""),
            processes=self._processes(handle),
        )

    def _part(self, handle: Any) -> Part:
        ask = self._machine.ask
        profile = _PROFILE.search(text(ask("nvmlDeviceGetName", handle)))
        total = size(self._machine.memory(handle), "total")
        return Part(profile[1] if profile else "", total, text(ask("nvmlDeviceGetUUID", handle)))

    def _errors(self, handle: Any) -> int | None:
        """Uncorrected ones: the larger of those since the driver was loaded and of all times."""
        counts = [
            self._machine.ask("nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, kind)
            for kind in (_VOLATILE, _AGGREGATE)
        ]
        return max((int(count) for count in counts if count is not None), default=None)

    def _processes(self, handle: Any) -> tuple[OnCard, ...] | None:
        """On the card and on its MIG devices. One that computes and draws is listed twice, with the same bytes."""
        ask = self._machine.ask
        found: dict[int, OnCard] = {}
        listed = False
        for each in (handle, *self._machine.parts(handle)):
            for kind, question in (
                ("C", "nvmlDeviceGetComputeRunningProcesses"),
                ("G", "nvmlDeviceGetGraphicsRunningProcesses"),
            ):
                several = ask(question, each)
                listed = listed or several is not None
                for one in several or ():
                    pid, used = int(one.pid), one.usedGpuMemory
                    used = None if used is None else int(used)
                    before = found.get(pid)
                    kinds = kind
                    if before is not None:
                        kinds = before.kind if kind in before.kind else f"{before.kind}+{kind}"
                        used = before.used_bytes if used is None else max(used, before.used_bytes or 0)
                    name = text(ask("nvmlSystemGetProcessName", pid)).rpartition("/")[2]
                    found[pid] = OnCard(pid, used, name, kinds)
        return tuple(found.values()) if listed else None


def _first(pair: Any) -> Any:
    """The current one of [current, pending]."""
    return None if pair is None else pair[0]


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
