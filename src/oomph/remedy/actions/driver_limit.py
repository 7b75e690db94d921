"""A limit below PyTorch: driver, virtual GPU, container, address space."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import GIB, format_bytes

_OTHER = {
    "hip": "rocm-smi --showmeminfo vram\nulimit -v",
    "xpu": "xpu-smi discovery\nulimit -v",
}


class DriverLimit(Action):
    """Allocate the same size alone."""

    code = "driver-limit"
    title = "Try the same allocation alone, to find the limit below PyTorch"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        ledger = case.ledger
        size = ledger.segment_bytes or GIB
        device = {"xpu": "xpu"}.get(case.failure.vendor, "cuda")
        said = ""
        if ledger.free_bytes is not None and ledger.segment_bytes is not None:
            said = (
                f"{format_bytes(ledger.free_bytes)} were free and {format_bytes(ledger.segment_bytes)} "
                "were refused: consumption is not the reason. "
            )
        text = (
            f"{said}Something below PyTorch limits what a process may allocate: a virtual GPU or MIG "
            "slice, WSL2, an address-space limit (ulimit -v), the driver. Allocating that size in an empty "
            "process shows whether it is there without the job."
        )
        look = _OTHER.get(
            case.failure.vendor,
            "nvidia-smi -q -d MEMORY,COMPUTE\nnvidia-smi -L   # MIG slices and vGPU profiles\nulimit -v",
        )
        test = f"import torch; torch.empty({size}, dtype=torch.uint8, device='{device}'); print('ok')"
        paste = f'{look}\npython -c "{test}"'
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If that fails too",
                    "the limit is outside the job: driver, VM or container settings, not the training code",
                ),
                (
                    "If it works",
                    "run the job again with a memory snapshot: the limit is reached only inside it",
                ),
            ),
        )
