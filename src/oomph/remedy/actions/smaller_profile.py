"""A smaller job on unified memory."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.actions.micro_batch import smaller
from oomph.remedy.setup import setup_of
from oomph.units import format_bytes


class SmallerProfile(Action):
    """Smaller job, same watermark."""

    code = "smaller-profile"
    title = "Make the job smaller and keep the watermark"

    def step(self, case: Case, finding: Finding) -> Step:
        setup = setup_of(case)
        numbers = finding.numbers
        text = ""
        if "allowed_bytes" in numbers and "allocated_bytes" in numbers:
            held = numbers["allocated_bytes"] + numbers.get("other_allocations_bytes", 0)
            asked = numbers.get("requested_bytes", 0)
            over = held + asked - numbers["allowed_bytes"]
            text = (
                f"{format_bytes(held)} were in use and {format_bytes(numbers['allowed_bytes'])} are allowed"
            )
            text += f": at least {format_bytes(over)} has to go. " if over > 0 else ". "
        trains = case.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UNKNOWN)
        if trains and setup.batch is not None and setup.batch > 1:
            new = smaller(setup.batch)
            factor = setup.batch // new
            text += (
                f"Lower the micro-batch from {setup.batch} to {new} and raise the accumulation {factor} "
                "times, so that the effective batch stays."
            )
            title = f"Micro-batch {setup.batch} -> {new}; keep the watermark"
        elif trains and setup.batch is None:
            text += "Halve the micro-batch and double the accumulation, so that the effective batch stays."
            title = ""
        else:
            text += "Take a smaller model or 16-bit weights, shorter sequences or smaller images."
            title = ""
        text += (
            " The GPU shares this memory with macOS and every open program, so closing programs helps as "
            "well."
        )
        return self.make(
            text,
            "torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()   # print both every "
            "few steps",
            title=title,
            outcomes=(
                (
                    "If it still fails at micro-batch 1",
                    "activation checkpointing, then shorter sequences, then a smaller model",
                ),
                (
                    "If it fails only after many steps",
                    "something is kept from step to step: print the allocated memory",
                ),
            ),
        )
