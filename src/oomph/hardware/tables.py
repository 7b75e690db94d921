"""The shipped tables of GPUs and cloud machines. They are read when first asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from oomph.hardware.gpus import Gpu
from oomph.units import GIB, MIB

_T = TypeVar("_T")

#: What nvidia-smi shows and CUDA does not: the most that was seen (1.08 GiB, on a GH200).
_MOST_HIDDEN_MIB = 1106


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine type: `count` times the GPU that `gpu` names. With a count of 0 it has a part of one only, of
    `slice_mib` MiB. `vcpus`, `host_gib` (RAM) and `network_gbps` (10**9 bits a second, of all its network cards
    together) are 0 where they are not known; those in `unchecked` were not looked up."""

    name: str
    provider: str
    gpu: str
    count: int
    slice_mib: int = 0
    vcpus: int = 0
    host_gib: float = 0
    network_gbps: float = 0
    unchecked: tuple[str, ...] = ()

    @property
    def host_bytes(self) -> int | None:
        """RAM of the machine; None: not known."""
        return round(self.host_gib * GIB) or None

    @property
    def network_bytes(self) -> int | None:
        """Bytes a second to other machines, in one direction, of the whole machine; None: not known."""
        return round(self.network_gbps * 1_000_000_000 / 8) or None


class _GpuRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of gpus.json: see docs/hardware.md."""

    name: str
    aliases: tuple[str, ...]
    vendor: str
    kind: str
    arch: str
    capability: str
    multiprocessors: int
    multiprocessors_source: str
    memory_gb: int
    smi_total_mib: tuple[int, ...]
    total_gib: tuple[float, ...]
    total_mib: tuple[int, ...]
    total_source: str
    sources: tuple[str, ...]
    device_name: str = ""
    unified: bool = False
    note: str = ""


class _Gpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    threads_per_multiprocessor: dict[str, int]
    gpus: tuple[_GpuRow, ...]


class _Machines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    machines: tuple[Machine, ...]


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a process takes on a GPU outside PyTorch's allocator, in bytes."""

    low_bytes: int
    high_bytes: int
    source: str


class _Outside(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    context: Context


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """Every GPU of the table, in its order."""
    table = _read("gpus.json", _Gpus)
    return tuple(_gpu(row, table) for row in table.gpus)


@cache
def all_machines() -> tuple[Machine, ...]:
    """Every cloud machine type of the table, in its order."""
    return _read("machines.json", _Machines).machines


@cache
def context() -> Context:
    """The CUDA context and loaded kernels, as far as anything is known of them."""
    return _read("outside.json", _Outside).context


def _read(name: str, kind: type[_T]) -> _T:
    return msgspec.json.decode(Path(__file__).with_name(name).read_bytes(), type=kind)


def _gpu(row: _GpuRow, table: _Gpus) -> Gpu:
    low, high = _totals(row)
    cuda = not row.capability.startswith("gfx")
    major, _, minor = row.capability.partition(".")
    return Gpu(
        name=row.name,
        capability=(int(major), int(minor)) if cuda else (0, 0),
        multiprocessors=row.multiprocessors,
        threads_per_multiprocessor=table.threads_per_multiprocessor[row.capability],
        total_bytes=low,
        source=_source(row, table),
        total_high_bytes=high,
        aliases=row.aliases,
        vendor=row.vendor,
        kind=row.kind,
        arch=row.arch,
        target=f"sm_{major}{minor}" if cuda else row.capability,
        memory_gb=row.memory_gb,
        smi_total_mib=row.smi_total_mib,
        device_name=row.device_name or row.name,
        unified=row.unified,
        note=row.note,
    )


def _totals(row: _GpuRow) -> tuple[int, int]:
    """The least and the most that CUDA reported, in whole MiB. A total that was printed in GiB with two decimals is
    rounded down. Where none is known, what nvidia-smi shows less what CUDA may not show; 0 where that is not known."""
    known = [int(value * GIB) // MIB for value in row.total_gib] + list(row.total_mib)
    if not known and row.smi_total_mib:
        known = [min(row.smi_total_mib) - _MOST_HIDDEN_MIB, max(row.smi_total_mib)]
    return (min(known) * MIB, max(known) * MIB) if known else (0, 0)


def _source(row: _GpuRow, table: _Gpus) -> str:
    """One sentence on every number of the row."""
    total = row.total_source if row.total_gib or row.total_mib else "nvidia-smi's total less 1.08 GiB"
    if not (row.total_gib or row.total_mib or row.smi_total_mib):
        total = "not known"
    return (
        f"total memory: {total}; multiprocessors: {table.sources[row.multiprocessors_source]}; "
        f"threads: {table.sources['guide']}; the rest: {', '.join(row.sources)} (as of {table.as_of})"
    )
