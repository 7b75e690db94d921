"""A memory snapshot of the failure."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.evidence.model import Kind
from oomph.remedy.actions.base import Action

_PASTE = (
    "import os, torch\n\ntorch.cuda.memory._record_memory_history(max_entries=200_000)   # PyTorch 2.1 and "
    "later\ntry:\n    train()\nexcept torch.cuda.OutOfMemoryError:\n    "
    "torch.cuda.memory._dump_snapshot(f\"oom_rank{os.environ.get('RANK', '0')}.pickle\")\n    raise"
)


class CollectSnapshot(Action):
    """_record_memory_history and _dump_snapshot."""

    code = "collect-snapshot"
    title = "Take a memory snapshot when it fails"

    def applies(self, case: Case) -> bool:
        """For failures of the caching allocator on CUDA and ROCm."""
        return case.failure.vendor in ("cuda", "hip") and case.kind is Kind.DEVICE_OOM

    def step(self, case: Case, finding: Finding) -> Step:
        del finding, case
        text = (
            "It lists every block that was alive, with the stack that made it, and every piece of the "
            "cache. View it at https://pytorch.org/memory_viz (the page reads the file in the browser)."
        )
        return self.make(text, _PASTE)
