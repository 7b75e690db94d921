"""Nothing of the graph may outlive its step."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes

_PASTE = (
    "running_loss += loss.item()              # not running_loss += "
    "loss\nhistory.append(logits.detach().cpu())    # not history.append(logits)\n"
    'print(f"{step} {torch.cuda.memory_allocated() / 2**30:.2f} GiB")   # the same after every step'
)


class DetachKept(Action):
    """.item() and .detach() for what is kept."""

    code = "detach-kept"
    title = "Keep numbers instead of tensors from step to step"

    def step(self, case: Case, finding: Finding) -> Step:
        del case
        return self.for_finding(finding)

    def for_finding(self, finding: Finding) -> Step:
        """The step; it needs no failure, as growth may be seen long before one."""
        first, last = finding.numbers.get("first_bytes"), finding.numbers.get("last_bytes")
        grew = (
            f"Memory grew from {format_bytes(first)} to {format_bytes(last)} while it ran. "
            if first and last
            else ""
        )
        text = (
            f"{grew}A tensor that is kept with its graph keeps every activation of its step alive. Look "
            "for sums of losses, lists of outputs, metric objects, hooks and attributes that hold a tensor "
            "with requires_grad."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                ("If memory stays flat now", "that was it; the step count no longer matters"),
                (
                    "If it still rises by the same amount per step",
                    "take a memory snapshot: it names the line that made the kept tensors",
                ),
            ),
        )
