"""Look at the free memory where the library failed."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import on_unsupported_platform
from oomph.units import format_bytes

_PASTE = (
    "import torch\n\nfree, total = torch.cuda.mem_get_info()   # directly before the call that failed\n"
    'print(f"free {free / 2**30:.2f} of {total / 2**30:.2f} GiB, "\n'
    '      f"PyTorch reserved {torch.cuda.memory_reserved() / 2**30:.2f} GiB", flush=True)'
)
_THEN = {
    Phase.FORWARD: "treat it as an out-of-memory error of a training step: smaller micro-batch first",
    Phase.BACKWARD: "treat it as an out-of-memory error of a training step: smaller micro-batch first",
    Phase.EVAL: "treat it as an out-of-memory error of evaluation: gradients off, fewer samples at a time",
    Phase.GENERATE: "treat it as an out-of-memory error of generation: shorter or fewer sequences",
    Phase.LOAD: "the weights leave no room: lower precision, sharding, or another process on the card",
    Phase.INIT: "the card was taken before the job began: see who holds it (nvidia-smi)",
    Phase.OPTIMIZER: "treat it as an out-of-memory error of the optimizer step",
}


class CheckFreeMemory(Action):
    """torch.cuda.mem_get_info() before the failing call."""

    code = "check-free-memory"
    title = "Print the free memory directly before the call that failed"

    def step(self, case: Case, finding: Finding) -> Step:
        left = finding.numbers.get("left_bytes")
        known = (
            f"The last figure in the log leaves {format_bytes(left)} of the card. "
            if left is not None
            else ""
        )
        text = (
            f"{known}The error has no sizes, and full cards, bad labels and driver trouble can all end in "
            "it. One number tells them apart: how much was free at that moment."
        )
        return self.make(text, _PASTE, outcomes=_outcomes(case))


def _outcomes(case: Case) -> tuple[tuple[str, str], ...]:
    full = _THEN.get(case.phase, "treat it as an out-of-memory error of that phase")
    where = on_unsupported_platform(case) if case.expandable_segments else ""
    if where:
        room = f"unset expandable_segments: its mapping calls do not work reliably on {where}"
    else:
        room = (
            "run once with CUDA_LAUNCH_BLOCKING=1: a device-side assert means labels or token ids out of "
            "range"
        )
    return (
        ("If less than about 1 GiB is free", full),
        ("If there is plenty", room),
        (
            "If mem_get_info itself fails",
            "the driver or the context is broken: nvidia-smi, dmesg, other processes",
        ),
    )
