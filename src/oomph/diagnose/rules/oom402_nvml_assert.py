"""The assertion that replaces the OOM message when NVML cannot be asked."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.units import format_bytes

_BY_PHASE: dict[Phase, tuple[str, ...]] = {
    Phase.FORWARD: ("micro-batch", "checkpointing", "shorter-sequence"),
    Phase.BACKWARD: ("micro-batch", "checkpointing", "shorter-sequence"),
    Phase.LOAD: ("lower-dtype", "meta-load", "shard-more"),
    Phase.OPTIMIZER: ("shard-optimizer", "eight-bit-optimizer"),
    Phase.EVAL: ("no-grad-eval", "eval-batch"),
    Phase.GENERATE: ("eval-batch", "generate-shorter"),
    Phase.SAVE: ("cpu-offload-save",),
}


class NvmlAssert(Rule):
    """`NVML_SUCCESS == r` failed inside CUDACachingAllocator.cpp."""

    code = "OOM402"
    cause = "nvml_assert_masks_oom"
    name = "nvml-assert-hides-an-out-of-memory-error"
    means = (
        "PyTorch 2.1 to 2.13 ask NVML which processes are on the card while they write the text of an "
        "out-of-memory error. Where NVML cannot answer (no libnvidia-ml in the container, a driver that "
        "was updated under a running system, some Jetson, WSL2 and vGPU set-ups), that question fails "
        "first, and its assertion is raised in place of the message. The allocator had already given up: "
        "this is an out-of-memory error whose numbers are lost."
    )
    decisive_evidence = (
        "`NVML_SUCCESS == r INTERNAL ASSERT FAILED` at a line of CUDACachingAllocator.cpp. The line number "
        "tells the PyTorch release."
    )
    first_action = (
        "Treat it as an out-of-memory error of the phase in which it was raised, and make NVML work (or "
        "use PyTorch 2.14 or later) so that the next failure prints its numbers."
    )
    verify = (
        "`nvidia-smi` works inside the container or session in which the job runs, and the job either "
        "passes or fails with `CUDA out of memory. Tried to allocate ...` and its sizes."
    )
    wrong_advice = (
        "Following the text's own advice to report a bug to PyTorch, or reinstalling PyTorch: the "
        "assertion is only the messenger, and the memory will be missing afterwards too."
    )
    actions = ("treat-as-oom", "collect-smi")

    def check(self, case: Case) -> Match | None:
        """Certain: the line is reached only when an allocation has failed."""
        if case.kind is not Kind.DISGUISED or case.failure.detail.get("library") != "nvml":
            return None
        line, release = case.failure.detail.get("line", ""), case.failure.detail.get("torch", "")
        at = f" (line {line}: PyTorch {release})" if line and release else f" (line {line})" if line else ""
        says = (
            f"The assertion in CUDACachingAllocator.cpp{at} stands in the code that writes an "
            "out-of-memory message: an allocation had failed, then NVML did not answer, and the message "
            "with its numbers was lost."
        )
        numbers: dict[str, int] = {}
        evidence = [case.failure.quote]
        found = case.samples("reserved", "max_reserved", "allocated", "max_allocated", "used")
        if found:
            sample = found[-1]
            numbers[f"{sample.what}_bytes"] = sample.value.bytes
            evidence.append(sample.quote)
            of = f" of {format_bytes(sample.total.bytes)}" if sample.total else ""
            says += (
                f" The last figure before it: {format_bytes(sample.value.bytes)}{of} "
                f"{sample.what.replace('_', ' ')}."
            )
        more = _BY_PHASE.get(case.phase, ())
        return Match(
            Certainty.CERTAIN, says, 0.7, numbers, tuple(evidence), ("treat-as-oom", *more, "collect-smi")
        )
