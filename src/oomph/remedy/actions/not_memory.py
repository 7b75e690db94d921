"""Fix what the text names; memory is not it."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.actions.non_paged_optimizer import NonPagedOptimizer


class NotMemory(Action):
    """By format: kernel, garbage size, unsupported operation."""

    code = "not-memory"
    title = "Fix what the error names: it is not a lack of memory"

    def step(self, case: Case, finding: Finding) -> Step:
        if case.failure.format == "T1_triton_smem":
            return self._triton(finding)
        if case.failure.format == "B1_bnb":
            other = NonPagedOptimizer().step(case, finding)
            text = (
                "This platform does not support CUDA managed memory, which paged optimizers need. Use an "
                "optimizer that is not paged."
            )
            return self.make(text, other.paste, title=other.title)
        if case.failure.format == "F9_1EB":
            text = (
                "The size is garbage. Look for the first error on any rank: a collective that failed or "
                "timed out leaves lengths unwritten, and a negative or overflowed number of elements looks "
                "the same."
            )
            paste = "grep -nE 'Watchdog|timeout|Error|Exception' <logs of all ranks> | head -n 40"
            return self.make(
                text,
                paste,
                outcomes=(
                    ("If no rank has an earlier error", "print the size that the last frame computes"),
                ),
            )
        return self.make("The error names something other than device memory; start from its own text.")

    def _triton(self, finding: Finding) -> Step:
        need, limit = finding.numbers.get("required_bytes"), finding.numbers.get("hardware_limit_bytes")
        sizes = (
            f" It wants {need} bytes of on-chip memory per block and the GPU has {limit}."
            if need and limit
            else ""
        )
        text = (
            f"The kernel is configured too large for this GPU.{sizes} Fewer stages or smaller blocks make "
            "it fit; a head dimension or kernel version that was tuned for another GPU is the usual reason."
        )
        return self.make(
            text,
            "num_stages=1   # in triton.Config(...); then a smaller BLOCK_M / BLOCK_N",
            outcomes=(
                (
                    "If the kernel is a library's",
                    "update the library, or switch that kernel off (another attention implementation)",
                ),
                ("If torch.compile generated it", 'mode="default" instead of max-autotune'),
            ),
        )
