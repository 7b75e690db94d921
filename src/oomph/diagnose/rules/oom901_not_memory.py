"""Errors that sound like a lack of device memory and are something else."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import format_bytes

#: Triton's resources whose sizes are bytes; the others are counts (threads, registers).
_BYTES = {"sharedmemory": "shared memory", "tensormemory": "tensor memory"}


class NotMemory(Rule):
    """Triton's shared memory, a nonsense size, an operation that the platform does not have."""

    code = "OOM901"
    cause = "not_an_oom"
    name = "error-only-looks-like-out-of-memory"
    means = (
        "The text sounds like a lack of GPU memory and is not: a Triton kernel that wants more on-chip "
        "shared memory than one multiprocessor has (some 64 to 228 KiB), a request of more than 1EB that "
        "comes from a garbage size, or managed memory that the platform does not support. The amount of "
        "free VRAM changes nothing about it."
    )
    decisive_evidence = (
        "`OutOfResources: out of resource: shared memory, Required: N, Hardware limit: M`; `Tried to "
        "allocate more than 1EB memory`; `Error operation not supported` from bitsandbytes."
    )
    first_action = (
        "Fix what the text names: a smaller block size or fewer stages for the kernel; the first error on "
        "any rank for a garbage size; a non-paged optimizer where managed memory is not supported."
    )
    verify = "The same job passes that point with unchanged memory use."
    wrong_advice = (
        "Every kind of memory advice: smaller batch, empty_cache, allocator settings, a card with more VRAM."
    )
    actions = ("not-memory", "collect-context")

    def check(self, case: Case) -> Match | None:
        """Certain: the text names what it is."""
        if case.kind is not Kind.NOT_MEMORY:
            return None
        if case.failure.format == "F9_1EB":
            says = (
                "A request of more than 1EB is a garbage size, not a lack of memory: often a length that "
                "was received from a failed collective, or a negative number of elements."
            )
            return Match(Certainty.CERTAIN, says, 0.8)
        if case.failure.format == "T1_triton_smem":
            return self._triton(case)
        if case.failure.format == "B1_bnb":
            says = (
                "bitsandbytes asked for CUDA managed memory (a paged optimizer) and the platform answered "
                "that it does not support the operation; no memory had run out."
            )
            return Match(Certainty.CERTAIN, says, 0.8)
        return Match(Certainty.CERTAIN, "The error names something other than device memory.", 0.6)

    def _triton(self, case: Case) -> Match:
        detail = case.failure.detail
        resource = detail.get("resource", "")
        name = _BYTES.get(resource, resource or "a resource")
        required, limit = detail.get("required", ""), detail.get("limit", "")
        numbers: dict[str, int] = {}
        sizes = ""
        if required.isdigit() and limit.isdigit():
            if resource in _BYTES:
                numbers = {"required_bytes": int(required), "hardware_limit_bytes": int(limit)}
                sizes = f" ({format_bytes(int(required))} wanted, {format_bytes(int(limit))} is the limit)"
            else:
                numbers = {"required": int(required), "hardware_limit": int(limit)}
                sizes = f" ({required} wanted, {limit} is the limit)"
        says = (
            f"A Triton kernel wants more {name} than the hardware gives one block{sizes}. That is on-chip "
            "memory of a multiprocessor, not the card's VRAM."
        )
        return Match(Certainty.CERTAIN, says, 0.8, numbers)
