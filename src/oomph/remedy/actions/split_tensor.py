"""One allocation is larger than the device allows for one."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes


class SplitTensor(Action):
    """Split the tensor, or lift the driver's limit on single allocations."""

    code = "split-tensor"
    title = "Split the tensor that is too large for one allocation"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        ledger = case.ledger
        asked = f" of {format_bytes(ledger.segment_bytes)}" if ledger.segment_bytes else ""
        room = f" while {format_bytes(ledger.free_bytes)} were free" if ledger.free_bytes else ""
        text = (
            f"A single allocation{asked} was refused{room}. Some devices limit one allocation (4 GiB on "
            "Intel GPUs by default), however much is free in all. Find the tensor by the last frame and "
            "make it in parts, or lift the limit in the driver."
        )
        paste = ""
        if case.failure.vendor == "xpu":
            paste = (
                "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1   # lifts the 4 GiB limit where the "
                "driver supports it"
            )
        return self.make(
            text,
            paste,
            outcomes=(
                ("If parts below the limit fail as well", "the device is full after all: explain that log"),
            ),
        )
