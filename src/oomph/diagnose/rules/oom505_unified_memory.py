"""Apple's MPS backend reached its limit on unified memory."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import format_bytes


class UnifiedMemory(Rule):
    """`MPS backend out of memory`."""

    code = "OOM505"
    cause = "unified_memory_limit"
    name = "unified-memory-limit-reached"
    means = (
        "On Apple silicon the GPU shares the machine's RAM. PyTorch's MPS allocator stops at a high "
        "watermark (by default 1.7 times the working-set size that Metal recommends) so that the machine "
        "stays usable. `MPS allocated` are the job's tensors, `other allocations` what Metal holds beside "
        "them. `private pool` and `shared pool` name kinds of Metal memory; neither has to do with CUDA "
        "graphs. Old releases print GB and mean GiB."
    )
    decisive_evidence = (
        "`MPS backend out of memory (MPS allocated: ..., other allocations: ..., max allowed: ...)`."
    )
    first_action = (
        "Make the job smaller (micro-batch, model, precision or input size) and keep the watermark."
    )
    verify = (
        "`torch.mps.driver_allocated_memory()` stays below `max allowed`, and Activity Monitor shows no "
        "growing swap."
    )
    wrong_advice = (
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0, which the message itself suggests: it removes the limit, "
        "and the machine swaps or freezes instead of the job failing."
    )
    actions = ("smaller-profile", "micro-batch", "checkpointing", "shorter-sequence", "lower-dtype")

    def check(self, case: Case) -> Match | None:
        """Certain: the message is the backend's own."""
        if case.kind is not Kind.UNIFIED_OOM:
            return None
        names = ("allocated_bytes", "other_allocations_bytes", "allowed_bytes", "requested_bytes")
        numbers = {name: case.failure.numbers[name].bytes for name in names if name in case.failure.numbers}
        parts = []
        if "allocated_bytes" in numbers:
            held = f"MPS had allocated {format_bytes(numbers['allocated_bytes'])}"
            if "other_allocations_bytes" in numbers:
                held += f" and Metal held {format_bytes(numbers['other_allocations_bytes'])} besides"
            parts.append(held)
        if "allowed_bytes" in numbers:
            parts.append(f"the limit is {format_bytes(numbers['allowed_bytes'])}")
        if "requested_bytes" in numbers:
            parts.append(f"the request was {format_bytes(numbers['requested_bytes'])}")
        says = "The job reached the limit that the MPS backend keeps on unified memory"
        says += f": {', '.join(parts)}." if parts else "; its numbers are not in the text."
        return Match(Certainty.CERTAIN, says, 0.8, numbers)
