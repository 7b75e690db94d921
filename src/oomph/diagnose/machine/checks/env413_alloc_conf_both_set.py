"""Both names of the allocator settings are set."""

from __future__ import annotations

from oomph.diagnose.machine.alloc_settings import GENERIC_NAME, corrected, read_by_torch
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import export
from oomph.hardware.alloc_conf import GENERIC_SINCE


class AllocConfBothSet(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV413"
    cause = "alloc_conf_both_set"
    name = "alloc-conf-both-set"
    means = (
        "PYTORCH_ALLOC_CONF is the newer name of PYTORCH_CUDA_ALLOC_CONF. They are not merged: PyTorch reads one. "
        "That is PYTORCH_CUDA_ALLOC_CONF where both are set (2.13 was run, 2.14 reads the same way), although a "
        "comment in its source says the opposite."
    )
    decisive_evidence = "Both variables are set for the same process."
    first_action = "Keep one of them: PYTORCH_ALLOC_CONF from PyTorch 2.9 on, PYTORCH_CUDA_ALLOC_CONF before."
    verify = "`env | grep ALLOC_CONF` in the job prints one line."
    wrong_advice = "Setting both to be safe: a later change of one of them then does nothing."

    def check(self, asked: Asked) -> Answer:
        read = read_by_torch(asked.environment)
        if read is None:
            return NotHere()
        if not read.hidden:
            return Clear(f"{read.variable.name} is the only one that is set")
        own, other = read.variable, read.hidden[0]
        same = own.value is not None and own.value == other.value
        old = read.torch is not None and read.torch < GENERIC_SINCE
        why = (
            f"PyTorch {read.torch[0]}.{read.torch[1]} knows no other"
            if old and read.torch
            else "it is read first"
        )
        keep = own.name if old else GENERIC_NAME
        value = corrected(own.value or "", read.torch) or own.value or ""
        return (
            Problem(
                says=f"{own.name}={own.value} and {other.name}={other.value} are both set; {own.name} counts: {why}.",
                does="Nothing is lost while both say the same."
                if same
                else f"What {other.name} says is not in effect.",
                fix=f"Keep {keep} alone, with the value that is meant.",
                paste=f"unset {own.name if keep == other.name else other.name}; " + export(keep, value),
                subject=other.name,
                severity=Severity.NOTE if same else Severity.WARNING,
                evidence=(own.quote, other.quote),
            ),
        )
