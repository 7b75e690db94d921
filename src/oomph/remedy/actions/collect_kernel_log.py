"""Who killed the process."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action

KERNEL_LOG = (
    'dmesg -T | grep -i -E "oom|killed process"\n'
    "sacct -j <job> --format=JobID,State,ExitCode,MaxRSS,ReqMem   # Slurm\nkubectl describe pod <pod>      "
    "                             # Kubernetes: Last State, Reason"
)


class CollectKernelLog(Action):
    """dmesg, sacct, kubectl describe."""

    code = "collect-kernel-log"
    title = "Ask the kernel and the scheduler who ended the process"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding, case
        text = (
            "An out-of-memory kill leaves a line with the process, its pid and its size in the kernel log "
            "of that node, and a reason in the scheduler's record. Preemption, time limits and scancel "
            "leave theirs there as well."
        )
        return self.make(text, KERNEL_LOG)
