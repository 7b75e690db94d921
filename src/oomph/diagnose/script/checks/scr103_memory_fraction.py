"""set_per_process_memory_fraction(0.85, device=0)."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import distributed
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument, text_of

_NAMES = (
    "torch.cuda.set_per_process_memory_fraction",
    "torch.cuda.memory.set_per_process_memory_fraction",
)


class MemoryFractionOnOneDevice(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR103"
    cause = "memory_fraction_on_one_device"
    name = "memory-fraction-on-one-device"
    means = (
        "set_per_process_memory_fraction makes no room: it is a cap on PyTorch's allocator, on one device of this "
        "process. With a fixed device every rank caps that one and runs uncapped on its own."
    )
    decisive_evidence = 'The device in the call is a number, or "cuda:0"; the others\' cap is never set.'
    first_action = (
        "Leave it out: it only brings the OOM earlier. Where a cap is wanted, set it on this rank's device."
    )
    verify = "The text of an OOM no longer says `allowed`; without a cap, all of the card can be used."
    wrong_advice = "A fraction as a remedy against OOM or fragmentation."

    def check(self, script: Script) -> Found:
        for call in script.called(*_NAMES):
            device = argument(call, "device", 1)
            number = _number(device)
            if number is None:
                continue
            several = distributed(script) is not None
            says = f"The cap of set_per_process_memory_fraction is set on GPU {number} alone"
            yield ScriptProblem(
                says=f"{says}, by every rank." if several else f"{says}.",
                does=(
                    f"Ranks on other GPUs have no cap, and on GPU {number} the OOM comes earlier: PyTorch's allocator "
                    "refuses what is above the fraction though the card has it."
                    if several
                    else "PyTorch's allocator refuses what is above the fraction though the card has it: an OOM comes "
                    "earlier, never later."
                ),
                fix="Leave the call out; where a cap is wanted, give it this rank's device.",
                paste="torch.cuda.set_per_process_memory_fraction(0.85, device=local_rank)"
                if several
                else "",
                subject="memory fraction",
                severity=Severity.WARNING,
                certainty=Certainty.CERTAIN if several else Certainty.LIKELY,
                evidence=(script.quote(call),),
            )


def _number(node: cst.BaseExpression | None) -> int | None:
    """The device's index where it is a literal: 0, "cuda:0", torch.device("cuda:0")."""
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    if isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    text = text_of(node)
    kind, colon, index = (text or "").partition(":")
    return int(index) if kind == "cuda" and colon and index.isdigit() else None
