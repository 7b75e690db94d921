"""What time costs on a GPU and in a machine: arithmetic, memory, and the ways between GPUs, hosts and nodes.

All numbers are what vendors publish: dense (without sparsity), at boost clock, in one direction. Real kernels reach a
part of them. What is not known is None. `docs/hardware.md` says where each is from.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import msgspec

#: 10**9 bytes: vendors' unit of bandwidths.
_GB = 1_000_000_000

Interconnect = Literal["", "pairs", "all"]


class GpuCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One GPU of costs.json. `tflops`: 10**12 operations a second, dense, by dtype (fp32, tf32, fp16, bf16, fp8); of
    fp32 without tensor cores. `memory_gb_s`, `host_gb_s` (PCIe or NVLink-C2C, one direction) and `nvlink_gb_s` (both
    directions together, as it is sold) are 10**9 bytes a second; 0: not known, or there is none. `nvlink`: "all", every
    GPU of a machine over a switch or a mesh; "pairs", a bridge between two. `looked_up` are the numbers that were found
    in a source; the rest is general knowledge."""

    gpu: str
    tflops: dict[str, float]
    looked_up: tuple[str, ...]
    memory_gb_s: float = 0
    nvlink_gb_s: float = 0
    nvlink: Interconnect = ""
    host_gb_s: float = 0

    @property
    def bandwidth_bytes(self) -> int | None:
        """Bytes a second that the GPU reads from or writes to its own memory; None: not known."""
        return round(self.memory_gb_s * _GB) or None

    @property
    def nvlink_bytes(self) -> int | None:
        """Bytes a second to other GPUs over NVLink, in one direction: half of what is sold. None where there is none,
        or it is not known; `nvlink` says between which GPUs."""
        return round(self.nvlink_gb_s * _GB / 2) or None

    @property
    def host_link_bytes(self) -> int | None:
        """Bytes a second between the GPU and the host's memory, in one direction; None: not known."""
        return round(self.host_gb_s * _GB) or None


class _Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    gpus: tuple[GpuCosts, ...]


_UNKNOWN = GpuCosts("", {}, ())


def costs_of(short_name: str) -> GpuCosts:
    """The costs of the GPU with this `short_name`; of one that is not in the table, nothing is known."""
    return _table().get(short_name, _UNKNOWN)


def source_of(costs: GpuCosts, number: str) -> str:
    """Where a number is from (`number` is a dtype, memory, nvlink or host) and how sure it is, as a sentence."""
    sources = _read().sources
    return sources["looked_up" if number in costs.looked_up else "unchecked"]


def link_bytes(costs: GpuCosts, gpus: int) -> int | None:
    """Bytes a second between any two of `gpus` GPUs in one machine, one direction: NVLink where it joins them all,
    else the way over the host. None: not known."""
    joined = costs.nvlink == "all" or (costs.nvlink == "pairs" and gpus <= 2)
    return costs.nvlink_bytes if joined and costs.nvlink_bytes else costs.host_link_bytes


@cache
def _read() -> _Costs:
    data = resources.files("oomph.hardware").joinpath("costs.json").read_bytes()
    return msgspec.json.decode(data, type=_Costs)


@cache
def _table() -> dict[str, GpuCosts]:
    return {each.gpu: each for each in _read().gpus}
