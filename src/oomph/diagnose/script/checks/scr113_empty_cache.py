"""empty_cache() in the loop."""

from __future__ import annotations

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script

_NAMES = ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "torch.accelerator.empty_cache")
#: Engines that share the card with training and allocate outside of PyTorch's cache of this process.
_NEIGHBOURS = ("vllm", "sglang", "trl", "openrlhf", "verl", "tensorflow", "jax", "cupy")


class EmptyCacheInTheLoop(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR113"
    cause = "empty_cache_in_the_loop"
    name = "empty-cache-in-the-loop"
    means = (
        "PyTorch gives its cache back and tries again by itself before an allocation fails. empty_cache() in the loop "
        "frees nothing that the script could not have, and makes every step ask the driver anew."
    )
    decisive_evidence = "The call stands in a loop."
    first_action = "Leave it out. Before another user of the card starts (an engine, NCCL), call it once."
    verify = "Steps are faster, peaks of what is allocated the same."
    wrong_advice = "empty_cache() as a cure for OOM."

    def check(self, script: Script) -> Found:
        if any([script.imports(name) for name in _NEIGHBOURS]):
            return
        for call in script.called(*_NAMES):
            if script.loops(call):
                yield ScriptProblem(
                    says="torch.cuda.empty_cache() runs in a loop.",
                    does=(
                        "It cures no OOM: PyTorch does the same before it fails. It slows every pass, and helps only "
                        "others on the card."
                    ),
                    fix="Leave it out, or call it once, before another user of the card needs room.",
                    subject="empty_cache",
                    severity=Severity.NOTE,
                    evidence=(script.quote(call),),
                )
