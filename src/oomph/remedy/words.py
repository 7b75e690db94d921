"""Sentences that several actions share."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.evidence.model import Kind
from oomph.units import format_bytes


def must_free(case: Case) -> str:
    """How much has to be free that was not, as one sentence; says so where the log does not tell."""
    ledger = case.ledger
    segment, free = ledger.segment_bytes, ledger.free_bytes
    if case.kind is not Kind.DEVICE_OOM or segment is None:
        return "The log prints no sizes, so how much is missing is not known."
    if free is None:
        return (
            f"The allocator asked for a segment of {format_bytes(segment)}; how much was free is not printed."
        )
    short = ledger.short_by_bytes
    if not short:
        return (
            f"The allocator asked for a segment of {format_bytes(segment)}. {format_bytes(free)} is the "
            "free memory as it was read after the failure, so how much was missing is not known."
        )
    return (
        f"The allocator asked the driver for a segment of {format_bytes(segment)} (a segment, not the "
        f"tensor) and {format_bytes(free)} was free: at least {format_bytes(short)} has to go."
    )


def allocated_words(case: Case) -> str:
    """What activations are a part of: `of the 37.10 GiB that were allocated`, or `of what is allocated`."""
    allocated = case.ledger.allocated_bytes
    return f"of the {format_bytes(allocated)} that were allocated" if allocated else "of what is allocated"


def params_words(count: int) -> str:
    """A count of parameters: `7.24 B`, `131.1 M`."""
    if count >= 10**9:
        return f"{count / 10**9:.2f} B"
    return f"{count / 10**6:.1f} M"
