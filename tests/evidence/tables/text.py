"""Text to documents, and the readings of the text as plain tuples."""

from __future__ import annotations

from oomph.evidence.model import Document, GpuProcess, GpuReading, Line
from oomph.evidence.tables import parse_gpus
from oomph.units import Amount

KIB = 1024
MIB = 1024**2
GIB = 1024**3


def document(text: str) -> Document:
    return Document("gpu.txt", [Line(line, number) for number, line in enumerate(text.split("\n"), 1)])


def readings(text: str) -> list[GpuReading]:
    return parse_gpus(document(text))[0]


def processes(text: str) -> list[GpuProcess]:
    return parse_gpus(document(text))[1]


def in_mib(value: Amount | None) -> int | None:
    if value is None:
        return None
    assert value.bytes % MIB == 0
    return value.bytes // MIB


def used_total(text: str) -> list[tuple[int, int | None, int | None]]:
    return [(one.gpu, in_mib(one.used), in_mib(one.total)) for one in readings(text)]


def listed(text: str) -> list[tuple[int, int, str, int | None]]:
    return [(one.gpu, one.pid, one.name, in_mib(one.used)) for one in processes(text)]
