"""Who else is on the card: this process, its siblings, an inference engine, strangers.

The message's `Process N has ...` clauses name everybody whom NVML sees. Inside a container the process itself may be
listed under a pid that it does not know; a lone entry without a "this process" clause is usually that.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.diagnose.incidents import Group
from oomph.evidence.model import Evidence, GpuProcess, ProcessUse, Quote
from oomph.units import GIB, MIB

_ENGINE = re.compile(
    r"vllm|sglang|sgl_|rollout|LLMRayActor|LLMEngine|EngineCore|tgi|lmdeploy|trtllm|ollama|tritonserver", re.I
)
#: Context, libraries and NCCL that a process may hold beside PyTorch's memory when it is listed by its pid.
_LARGEST_OWN_OUTSIDE = 4 * GIB


@dataclass(frozen=True)
class Neighbour:
    """Another process on the same card. `role` is sibling, engine or foreign; `why` says how that is known."""

    pid: int
    used_bytes: int | None
    role: str
    why: str


@dataclass(frozen=True)
class Neighbours:
    """The processes of the failing card. `self_pid` is set when this process was recognised in the list."""

    self_pid: int | None = None
    self_bytes: int | None = None
    others: tuple[Neighbour, ...] = ()
    from_smi: tuple[Quote, ...] = ()

    def of(self, role: str) -> tuple[Neighbour, ...]:
        return tuple(one for one in self.others if one.role == role)

    def bytes_of(self, role: str) -> int:
        return sum(one.used_bytes or 0 for one in self.of(role))

    @property
    def total_bytes(self) -> int:
        return sum(one.used_bytes or 0 for one in self.others)


def neighbours(
    evidence: Evidence, one: Group, reserved_bytes: int | None, has_own_clause: bool
) -> Neighbours:
    """Sorts the processes that the message lists, or nvidia-smi where the message lists none."""
    uses = list(one.lead.processes)
    quotes: list[Quote] = []
    if not uses:
        uses, quotes = _from_smi(evidence, one)
        if quotes:
            has_own_clause = False
    own = None if has_own_clause else _own(uses, reserved_bytes)
    others = []
    rest = [use for use in uses if own is None or use.pid != own.pid]
    by_pid = sorted(rest, key=_pid)
    for use in rest:
        role, why = _role(evidence, use, by_pid)
        others.append(Neighbour(use.pid, use.used.bytes if use.used else None, role, why))
    return Neighbours(
        self_pid=own.pid if own else None,
        self_bytes=own.used.bytes if own and own.used else None,
        others=tuple(others),
        from_smi=tuple(quotes),
    )


def _own(uses: list[ProcessUse], reserved_bytes: int | None) -> ProcessUse | None:
    """The entry that is this process: it holds what PyTorch reserved and an ordinary context on top."""
    if reserved_bytes is None:
        return None
    fits = [
        use
        for use in uses
        if use.used is not None
        and -(16 * MIB) <= use.used.high_bytes - reserved_bytes <= _LARGEST_OWN_OUTSIDE
    ]
    if not fits:
        return None
    return min(fits, key=lambda use: (use.used.bytes if use.used else 0) - reserved_bytes)


def _from_smi(evidence: Evidence, one: Group) -> tuple[list[ProcessUse], list[Quote]]:
    """The processes of the failing device in the last nvidia-smi table of the input."""
    known = evidence.derived(_Listed)
    device = one.lead.device if one.lead.device is not None else (0 if known.single_gpu else None)
    keep = known.on_device.get(device, ())
    return [ProcessUse(row.pid, row.used) for row in keep], [row.quote for row in keep]


class _Listed:
    """The processes that nvidia-smi lists, by device (None: on any), each as it was listed last."""

    def __init__(self, evidence: Evidence) -> None:
        self.single_gpu = len({reading.gpu for reading in evidence.gpus}) <= 1
        last: dict[int | None, dict[int, GpuProcess]] = {}
        for row in evidence.gpu_processes:
            for device in (row.gpu, None):
                rows = last.setdefault(device, {})
                rows.pop(row.pid, None)  # so that the order is that of the last mention
                rows[row.pid] = row
        self.on_device = {device: tuple(rows.values()) for device, rows in last.items()}


def _rank_pids(evidence: Evidence) -> set[int]:
    pids = {int(fact.value) for fact in evidence.facts_named("rank_pid") if fact.value.isdecimal()}
    return pids | {found.pid for found in evidence.exits if found.pid is not None}


def _roles(evidence: Evidence) -> Mapping[int, tuple[str, str]]:
    roles: dict[int, tuple[str, str]] = {}
    for pid in _rank_pids(evidence):
        roles[pid] = ("sibling", f"pid {pid} is one of this job's ranks by the log")
    for fact in evidence.facts_named("engine_pid"):
        if fact.value.isdecimal():
            roles[int(fact.value)] = ("engine", f"pid {fact.value} is an inference worker by the log")
    for row in evidence.gpu_processes:
        if row.pid not in roles and _ENGINE.search(row.name):
            roles[row.pid] = ("engine", f"nvidia-smi names it {row.name}")
    return roles


def _pid(use: ProcessUse) -> int:
    return use.pid


def _role(evidence: Evidence, use: ProcessUse, by_pid: Sequence[ProcessUse]) -> tuple[str, str]:
    roles = evidence.derived(_roles)
    if use.pid in roles:
        return roles[use.pid]
    near = by_pid[bisect_left(by_pid, use.pid - 16, key=_pid) : bisect_right(by_pid, use.pid + 16, key=_pid)]
    twins = [other for other in near if other.pid != use.pid and _alike(use, other)]
    several_ranks: bool = evidence.derived(_several_ranks)
    if twins and several_ranks:
        pids = ", ".join(str(one.pid) for one in (use, *twins))
        return "sibling", f"pids {pids} are neighbours and hold about the same, and the job has several ranks"
    return "foreign", "nothing in the log says that it belongs to this job"


def _alike(a: ProcessUse, b: ProcessUse) -> bool:
    if a.used is None or b.used is None:
        return False
    return abs(a.used.bytes - b.used.bytes) <= 0.1 * max(a.used.bytes, b.used.bytes)


def _several_ranks(evidence: Evidence) -> bool:
    world = evidence.fact("world_size")
    if world is not None and world.value.isdecimal():
        return int(world.value) > 1
    # A single rank above 0 has others below it.
    return any(line.rank for document in evidence.documents for line in document.lines)
