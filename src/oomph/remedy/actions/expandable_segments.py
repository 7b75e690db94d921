"""expandable_segments against fragmentation."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import on_unsupported_platform, torch_release
from oomph.units import format_bytes

_SAFE = re.compile(r"[\w:.,\[\]>-]{1,200}\Z")
_ASYNC = re.compile(r"backend\s*[:=]\s*cudaMallocAsync", re.IGNORECASE)
_OWN = re.compile(r",?\s*expandable_segments\s*[:=]\s*\w+", re.IGNORECASE)


class ExpandableSegments(Action):
    """PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."""

    code = "expandable-segments"
    title = "Set expandable_segments"

    def applies(self, case: Case) -> bool:
        """Where it exists, works, and is not on already."""
        if case.expandable_segments or on_unsupported_platform(case) or _ASYNC.search(case.alloc_conf):
            return False
        if case.failure.vendor != "cuda":
            return False
        # The sleep mode of a co-located vLLM refuses to work with it.
        if case.fact("engine_utilization") is not None or case.fact("engine_pid") is not None:
            return False
        release = torch_release(case)
        return release is None or release >= (2, 1)

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        ledger = case.ledger
        text = ""
        if ledger.cached_bytes is not None and ledger.segment_bytes is not None:
            text = (
                f"{format_bytes(ledger.cached_bytes)} are reserved and not in use, in pieces of which none "
                f"holds the {format_bytes(ledger.segment_bytes)} that were asked for. "
            )
        text += (
            "Expandable segments grow and shrink by mapping pages, so free pieces do not stay locked in "
            "segments of the wrong size. Results and speed stay the same. Set it before the first CUDA "
            "call, in every rank, with a capital T."
        )
        if "max_split_size_mb" in case.alloc_conf:
            text += " max_split_size_mb, which is set now, does nothing for expandable segments."
        return self.make(
            text,
            f"export PYTORCH_CUDA_ALLOC_CONF={_conf(case.alloc_conf)}",
            outcomes=(
                (
                    "If it still fails with little reserved but unallocated",
                    "it was not only fragmentation: the job needs less memory",
                ),
                (
                    "If it still fails with much reserved but unallocated",
                    "fix or bucket the shapes, and warm up on the largest",
                ),
            ),
        )


def _conf(present: str) -> str:
    """The settings that are there, with this one added; only if they are safe to paste."""
    kept = _OWN.sub("", present).strip(" ,")
    if kept and _SAFE.match(kept):
        return f"{kept},expandable_segments:True"
    return "expandable_segments:True"
