"""A module that answers as `pynvml` (nvidia-ml-py) does: names, structures and errors are its own.

Values after the documentation of NVML: sizes in bytes, utilization in per cent, MIG mode as [current, pending],
`usedGpuMemory` None where the driver tells none (WDDM), version 2 of memory info with `reserved` apart from `used`.
"""

# ruff: noqa: N802 - the names are those of NVML

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1 << 20


class Card:
    def __init__(self, uuid: str, name: str, total: int, used: int, **more: Any) -> None:
        self.uuid, self.name, self.total, self.used = uuid, name, total, used
        self.reserved: int = more.pop("reserved", 0)
        self.compute: Any = more.pop("compute", [])
        self.graphics: Any = more.pop("graphics", [])
        self.utilization: Any = more.pop("utilization", 0)
        self.parts: list[Card] = more.pop("parts", [])
        self.mig: Any = more.pop("mig", None)
        self.memory: Any = more.pop("memory", None)
        self.lost: bool = more.pop("lost", False)
        assert not more


def process(pid: int, used: int | None) -> SimpleNamespace:
    return SimpleNamespace(
        pid=pid, usedGpuMemory=used, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF
    )


class FakeNvml:
    """`version_2`: whether the driver knows version 2 of memory info."""

    NVMLError = pynvml.NVMLError
    nvmlMemory_v2 = pynvml.nvmlMemory_v2  # noqa: N815 - its name

    def __init__(self, *cards: Card, version_2: bool = True, start: Exception | None = None) -> None:
        self.cards = cards
        self.version_2 = version_2
        self.start = start
        self.names: dict[int, Any] = {}
        self.running = False

    def nvmlInit(self) -> None:
        if self.start is not None:
            raise self.start
        self.running = True

    def nvmlShutdown(self) -> None:
        self.running = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        if self.cards[index].lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Card:
        for card in self.cards:
            if card.uuid == uuid:
                return card
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetIndex(self, card: Card) -> int:
        return self.cards.index(card)

    def nvmlDeviceGetUUID(self, card: Card) -> Any:
        return card.uuid

    def nvmlDeviceGetName(self, card: Card) -> Any:
        return card.name

    def nvmlDeviceGetMemoryInfo(self, card: Card, version: int | None = None) -> Any:
        if card.memory is not None:
            raise card.memory
        if version and not self.version_2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        free = card.total - card.used - card.reserved
        if version:
            return SimpleNamespace(total=card.total, used=card.used, free=free, reserved=card.reserved)
        return SimpleNamespace(total=card.total, used=card.used + card.reserved, free=free)

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> Any:
        if card.utilization is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=card.utilization, memory=0)

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> Any:
        return self._list(card.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: Card) -> Any:
        return self._list(card.graphics)

    def _list(self, value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    def nvmlDeviceGetMigMode(self, card: Card) -> list[int]:
        if card.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [card.mig, card.mig]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> Card:
        if index >= len(card.parts):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return card.parts[index]

    def nvmlSystemGetProcessName(self, pid: int) -> Any:
        if pid not in self.names:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.names[pid]
