"""Host memory ran out, or a process got the signal that the kernel sends then."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.diagnose.senders import other_sender
from oomph.evidence.model import Kind, MemorySample, Position, Quote
from oomph.units import MIB, TIB, format_bytes, parse_size

#: More than any single machine has: such a request is a wrong size, not a lack of memory.
_ABSURD = 64 * TIB
#: From this share on, host memory counts as full.
_FULL_PERCENT = 90
#: A use that grew by half over the log is growing, not fluctuating.
_GROWTH = 1.5
#: What the kernel calls the processes of a training job.
_OURS = re.compile(
    r"python|pt_|torch|train|ray|deepspeed|accelerate|jupyter|ipykernel|dask|nccl|mpi", re.IGNORECASE
)


@dataclass(frozen=True)
class _Sign:
    """A figure of host memory that bears on a kill. `full` is True when it shows memory at its end."""

    text: str
    full: bool
    numbers: dict[str, int]
    quote: Quote


class HostRam(Rule):
    """The CPU's memory, not the GPU's."""

    code = "OOM501"
    cause = "host_ram"
    name = "host-memory-ran-out"
    means = (
        "The machine's own memory (or the limit that a cgroup, Slurm, Kubernetes or Ray puts on it) was "
        "used up. Either an allocation on the CPU was refused, or the kernel killed a process to save the "
        "rest. Usual consumers: one copy of the weights per rank while loading, optimizer states offloaded "
        "to the CPU, data-loader workers that each hold the data set, results collected over an "
        "evaluation, files cached in a tmpfs."
    )
    decisive_evidence = (
        "A text that names host memory: `DefaultCPUAllocator`, a Python MemoryError, the kernel's `Out of "
        "memory: Killed process`, Slurm's `oom-kill event`, `OOMKilled`, Ray's memory monitor. Exit code "
        "-9 or 137 alone proves nothing: preemption, scancel, time limits, watchdogs and people send "
        "SIGKILL too. It becomes likely when the log shows host memory at 90 % or more shortly before."
    )
    first_action = (
        "Give the job more host memory or make it use less (fewer workers, one loading rank, no CPU "
        "offload, streamed data). For a bare SIGKILL first find out who sent it: the kernel log, `sacct` "
        "or `kubectl describe pod` says so."
    )
    verify = (
        "Watch the resident memory of all the job's processes together (not of one) through the place "
        "where it died: it stays well under the limit, and the kernel log gets no new `Killed process` "
        "line."
    )
    wrong_advice = (
        "Any advice about GPU memory: a smaller batch, empty_cache, allocator settings or a bigger GPU do "
        "not change how much RAM the host has. CPU offload makes it worse."
    )
    actions = ("host-ram", "collect-kernel-log")

    def check(self, case: Case) -> Match | None:
        """Certain where the text names host memory; for a bare SIGKILL possible, or likely with figures."""
        if case.kind is Kind.HOST_OOM:
            return self._named(case)
        if case.kind is Kind.KILLED:
            return self._killed(case)
        return None

    def _named(self, case: Case) -> Match:
        request = case.request_bytes
        numbers = {"requested_bytes": request} if request else {}
        sender = case.failure.detail.get("sender", "")
        victim = case.failure.detail.get("victim", "")
        if victim and not _OURS.search(victim):
            return Match(
                Certainty.POSSIBLE,
                f"Host memory ran out on this machine: {sender} killed {victim} for it. Whether the job suffered is "
                "not in the log.",
                weight=0.3,
            )
        if request and request >= _ABSURD:
            says = (
                f"An allocation of {format_bytes(request)} in host memory was refused. No machine has that "
                "much: the size itself is likely wrong (a negative or overflowed dimension)."
            )
            return Match(Certainty.LIKELY, says, 0.5, numbers)
        if request:
            says = (
                f"The CPU's allocator was asked for {format_bytes(request)} of host memory and could not "
                "get it."
            )
        elif sender:
            says = f"Host memory ran out: {sender} killed the process for it. This is not GPU memory."
        else:
            says = "An allocation in host memory was refused. This is not GPU memory."
        sign = _sign(case)
        evidence = (case.failure.quote, sign.quote) if sign else (case.failure.quote,)
        if sign is not None:
            says += f" {sign.text}"
            numbers.update(sign.numbers)
        return Match(Certainty.CERTAIN, says, 0.8, numbers, evidence)

    def _killed(self, case: Case) -> Match:
        who = case.failure.detail.get("who", "")
        how = case.failure.detail.get("no_last_record", "")
        told = f"A {who or 'process'} " + (
            f"ended without a last record ({how})" if how else "was killed with SIGKILL"
        )
        sign = _sign(case)
        if _stopped_by_launcher(case):
            says = (
                f"{told}; the launcher says that it stopped this process itself, so look for the failure "
                "before it."
            )
            return Match(Certainty.POSSIBLE, says, 0.1)
        if sign is not None and sign.full:
            says = (
                f"{told}, and host memory was at its end: {sign.text} The kernel's OOM killer is the "
                "likely sender."
            )
            return Match(Certainty.LIKELY, says, 0.6, sign.numbers, (case.failure.quote, sign.quote))
        other = other_sender(case.evidence, case.group.start)
        if other is not None:
            says = f"{told}. The log names another sender than a lack of host memory: {other.text[:100]}"
            return Match(Certainty.POSSIBLE, says, 0.15, evidence=(case.failure.quote, other))
        if how:
            says = (
                f"{told}. SIGKILL leaves none, and the kernel's OOM killer sends it when host memory runs out; "
                "but neither do SIGTERM, os._exit and a crash in C code. Nothing here says which it was."
            )
            return Match(Certainty.POSSIBLE, says, 0.3)
        says = (
            f"{told}. The kernel's OOM killer sends it when host memory runs out, but so do preemption, "
            "scancel, time limits, watchdogs and people; this log does not say who did."
        )
        if sign is not None:
            evidence = (case.failure.quote, sign.quote)
            return Match(Certainty.POSSIBLE, f"{says} {sign.text}", 0.6, sign.numbers, evidence)
        return Match(Certainty.POSSIBLE, says, 0.5 if who else 0.4)


def _stopped_by_launcher(case: Case) -> bool:
    """True when a launcher says that it killed this very process."""
    pid = case.failure.detail.get("pid", "")
    for found in case.evidence.exits:
        if found.killer != "launcher":
            continue
        if pid and found.pid is not None and str(found.pid) == pid:
            return True
        if not pid and found.rank is not None and found.rank == case.rank:
            return True
    return False


def _sign(case: Case) -> _Sign | None:
    """The strongest figure of host memory before the failure."""
    percent = case.fact("host_memory_percent")
    if percent is not None and _said_with(case, percent.position):
        value = _percent(percent.value)
        if value is not None and value >= _FULL_PERCENT:
            text = f"{value:.1f} % of host memory was in use by the last figure."
            return _Sign(text, True, {"host_memory_percent": int(value)}, percent.quote)
    samples = case.samples("host_used")
    if not samples:
        return None
    first, last = samples[0].value.bytes, samples[-1]
    used = last.value.bytes
    limit = _limit_bytes(case, last)
    if limit and used * 100 >= limit * _FULL_PERCENT:
        text = f"{format_bytes(used)} of {format_bytes(limit)} of host memory were in use by the last figure."
        return _Sign(text, True, {"host_used_bytes": used, "host_limit_bytes": limit}, last.quote)
    if len(samples) >= 3 and used >= _GROWTH * first and used == max(one.value.bytes for one in samples):
        text = f"Host memory in use had grown from {format_bytes(first)} to {format_bytes(used)}."
        return _Sign(text, False, {"host_used_bytes": used}, last.quote)
    if limit:
        return None
    text = f"The last figure of host memory in use was {format_bytes(used)}; the limit is not in the log."
    return _Sign(text, False, {"host_used_bytes": used}, last.quote)


def _said_with(case: Case, position: Position) -> bool:
    """True for what stands before the failure, or directly behind it as a part of its text (Ray's)."""
    start, end = case.group.start, case.group.end
    return position.document == start.document and position.line <= end.line + 5


def _percent(text: str) -> float | None:
    try:
        value = float(text.rstrip("% "))
    except ValueError:
        return None
    return value if 0 <= value <= 100 else None


def _limit_bytes(case: Case, sample: MemorySample) -> int | None:
    """The limit of host memory: printed with the figure, or as the job step's."""
    if sample.total is not None:
        return sample.total.bytes
    fact = case.fact("host_limit")
    if fact is None:
        return None
    text = fact.value.strip()
    if text.isdigit():
        # Slurm's --mem counts MiB where no unit is given; Kubernetes counts bytes.
        size_bytes = int(text) * (MIB if "--mem" in fact.quote.text else 1)
        return size_bytes if size_bytes < 2**63 else None
    size = parse_size(f"{text}B" if text.endswith("i") else text)
    return size.bytes if size is not None else None
