"""A limit that the job sets itself."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes

_SETTING = re.compile(r"per_process_memory_fraction|throw_on_cudamalloc_oom")


class RemoveCap(Action):
    """Remove set_per_process_memory_fraction."""

    code = "remove-cap"
    title = "Remove the limit that the job puts on its own memory"

    def applies(self, case: Case) -> bool:
        """Where a limit is printed or set, or a snapshot shows that PyTorch stopped with much left on the device."""
        return (
            _seen_inside(case)
            or case.ledger.limit_bytes is not None
            or "allowed_bytes" in case.failure.numbers
            or "cap" in case.failure.detail
            or case.fact("memory_fraction") is not None
            or _SETTING.search(case.alloc_conf) is not None
        )

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        ledger = case.ledger
        parts = []
        if ledger.limit_bytes is not None:
            of = f" of {format_bytes(ledger.capacity_bytes)}" if ledger.capacity_bytes else ""
            parts.append(f"PyTorch may use {format_bytes(ledger.limit_bytes)}{of} here")
        fraction = case.fact("memory_fraction")
        if fraction is not None:
            parts.append(f"the log sets the memory fraction to {fraction.value}")
        if ledger.free_bytes:
            parts.append(f"{format_bytes(ledger.free_bytes)} of the card were free when it failed")
        said = "; ".join(parts)
        facts = f"{said[:1].upper() + said[1:]}. " if said else ""
        text = (
            f"{facts}The allocator stopped at that limit, not at the end of the card. Find where it is set "
            "and take it out, or raise it."
        )
        paste = (
            'grep -rnE "memory_fraction" --include="*.py" --include="*.yaml" --include="*.json" .\n'
            "env | grep ALLOC_CONF"
        )
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If the limit is meant (a shared card)",
                    "the job has to fit under it: treat it as an ordinary out-of-memory error",
                ),
                ("If nothing sets it", "look for a virtual GPU or a MIG slice: nvidia-smi -L"),
                ("If it fails at the full size of the card", "explain that log"),
            ),
        )


def _seen_inside(case: Case) -> bool:
    failure = case.inside.failure if case.inside is not None else None
    return failure is not None and str(failure.verdict) == "capped"
