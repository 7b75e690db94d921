"""Smaller cuBLAS workspaces."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes


class SmallerWorkspaces(Action):
    """CUBLAS_WORKSPACE_CONFIG with less than the default."""

    code = "smaller-workspaces"
    title = "Make cuBLAS workspaces smaller"

    def applies(self, case: Case) -> bool:
        """On NVIDIA cards."""
        return case.failure.vendor == "cuda"

    def step(self, case: Case, finding: Finding) -> Step:
        del case
        held = finding.numbers.get("workspace_bytes")
        text = (f"{format_bytes(held)} are held by workspaces. " if held else "") + (
            "Each thread and stream has one of its own. `:4096:2` gives each 8 MiB, `:16:8` 128 KiB; large "
            "matrix products may run slower with less."
        )
        return self.make(
            text,
            "export CUBLAS_WORKSPACE_CONFIG=:4096:2",
            outcomes=(
                ("If the step time stays the same", "keep it, or try :16:8"),
                ("If it slows down", "use fewer streams and threads instead"),
            ),
        )
