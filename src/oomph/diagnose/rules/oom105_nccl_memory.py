"""NCCL could not get memory for its own buffers: memory that PyTorch's allocator neither holds nor counts."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, MemorySample, Quote
from oomph.units import format_bytes

_DIED = re.compile(r"unhandled cuda error|ncclUnhandledCudaError|NCCL error|NCCL Error|DistBackendError")
_HOST = re.compile(r"Failed to CUDA host ?alloc", re.IGNORECASE)


class NcclMemory(Rule):
    """NCCL's own cudaMalloc failed."""

    code = "OOM105"
    cause = "nccl_memory"
    name = "nccl-buffers-do-not-fit"
    means = (
        "NCCL allocates its communication buffers from the driver itself, outside PyTorch's caching "
        "allocator, and most of them only when a communicator or a kind of collective is used for the "
        "first time. When PyTorch has reserved nearly the whole card by then, NCCL's allocation fails. "
        "PyTorch cannot help out: its cache is not NCCL's. It sees nothing but a failed collective and "
        "raises `unhandled cuda error`, without a size."
    )
    decisive_evidence = (
        "A `NCCL WARN` line with `Cuda failure 'out of memory'` or `Failed to CUDA calloc N bytes` on the "
        "rank whose collective then fails. What PyTorch had reserved by then, if the job prints it, says "
        "how little was left. Connection errors of other ranks follow from it."
    )
    first_action = (
        "Leave 1 to 2 GiB of each card outside PyTorch's pool, so that NCCL can create its buffers when it "
        "needs them."
    )
    verify = (
        "Run with NCCL_DEBUG=WARN: no allocation warning appears, and `torch.cuda.mem_get_info()` before "
        "the collective that failed shows more than 1 GiB free on every rank."
    )
    wrong_advice = (
        "Debugging the network, changing NCCL_SOCKET_IFNAME or NCCL_IB_* or raising the collective "
        "timeout: the connection errors are what the other ranks see of this failure. `unhandled cuda "
        "error` alone does not name the network either; NCCL's own warning above it names the reason."
    )
    actions = ("nccl-headroom", "collect-context")

    def check(self, case: Case) -> Match | None:
        """Certain where the collective failed with it, likely where only the warning is printed."""
        if case.kind is not Kind.NCCL_OOM:
            return None
        numbers: dict[str, int] = {}
        parts: list[str] = []
        evidence: list[Quote] = [case.failure.quote]
        if case.request_bytes:
            numbers["requested_bytes"] = case.request_bytes
        host = any(_HOST.search(one.quote.text) for one in case.group.prints)
        size = f" of {format_bytes(case.request_bytes)}" if case.request_bytes else ""
        where = "in pinned host memory" if host else "on the card"
        parts.append(f"NCCL's own allocation{size} {where} failed, outside PyTorch's allocator.")
        sample = _held(case)
        if sample is not None and not host:
            held, total = sample.value.bytes, sample.total.bytes if sample.total else None
            numbers[f"{sample.what}_bytes"] = held
            evidence.append(sample.quote)
            of = f" of {format_bytes(total)}" if total else ""
            whose = "The card had" if sample.what == "used" else "PyTorch had"
            verb = "in use" if sample.what == "used" else "reserved"
            parts.append(f"{whose} {format_bytes(held)}{of} {verb} by the last figure before it.")
        died = case.group.traceback is not None or case.text_anywhere(_DIED) is not None
        if not died:
            parts.append("The log does not show the collective failing with it.")
        return Match(
            certainty=Certainty.CERTAIN if died and not host else Certainty.LIKELY,
            says=" ".join(parts),
            weight=0.8 if "requested_bytes" in numbers else 0.7,
            numbers=numbers,
            evidence=tuple(evidence),
        )


def _held(case: Case) -> MemorySample | None:
    """The last figure of what PyTorch reserved, else of what the device had in use."""
    for names in (("reserved", "max_reserved"), ("used",)):
        found = case.samples(*names)
        if found:
            return found[-1]
    return None
