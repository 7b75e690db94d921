"""CUDA managed memory (bitsandbytes' paged optimizers) could not be had."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind


class ManagedMemory(Rule):
    """cudaMallocManaged failed inside bitsandbytes."""

    code = "OOM504"
    cause = "managed_memory_limit"
    name = "managed-memory-for-paged-optimizer-refused"
    means = (
        "bitsandbytes keeps the states of its paged optimizers in CUDA managed memory, which moves between "
        "host and card page by page. cudaMallocManaged refused it. Managed memory is backed by RAM and by "
        "the platform's support for it: WSL2, Windows and some virtual machines offer only a little or "
        "none, so this happens with free VRAM, too."
    )
    decisive_evidence = (
        "`Error out of memory at line ... in file .../pythonInterface.c` from bitsandbytes' own code; no "
        "Python exception and no sizes. The same line with `operation not supported` means that the "
        "platform has no managed memory at all."
    )
    first_action = (
        "Use the same optimizer without paging (adamw_bnb_8bit for paged_adamw_8bit, adamw_torch for 32 bit)."
    )
    verify = (
        "The first optimizer steps pass with the non-paged optimizer, and its states show in the card's "
        "allocated memory."
    )
    wrong_advice = (
        "A smaller batch: the states of a paged optimizer depend on the trainable parameters alone, and "
        "this memory is not taken from PyTorch's allocator."
    )
    actions = ("non-paged-optimizer", "host-ram")

    def check(self, case: Case) -> Match | None:
        """Certain: the text comes from the managed allocation."""
        if case.kind is not Kind.MANAGED_OOM:
            return None
        optimizer = case.fact("optimizer")
        used = f" The log names the optimizer {optimizer.value}." if optimizer is not None else ""
        where = " WSL2 offers managed memory only in part." if case.platform == "wsl2" else ""
        says = (
            "bitsandbytes' own code could not get CUDA managed memory, which its paged optimizers keep "
            f"their states in.{used}{where}"
        )
        evidence = (case.failure.quote, optimizer.quote) if optimizer is not None else (case.failure.quote,)
        return Match(Certainty.CERTAIN, says, 0.8, evidence=evidence)
