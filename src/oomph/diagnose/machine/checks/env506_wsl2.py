"""The machine is WSL2."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, NotHere, Problem, Severity
from oomph.job.model import Job
from oomph.units import format_bytes


class Wsl2(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV506"
    cause = "wsl2"
    name = "wsl2"
    means = (
        "Under WSL2 the GPU belongs to Windows. The virtual machine gets half of the computer's RAM by default, only a "
        "part of that can be pinned, expandable segments do not exist, nvidia-smi lists no processes, and the Windows "
        "driver may move GPU memory to RAM instead of reporting out-of-memory (much slower, no error)."
    )
    decisive_evidence = "The kernel's name says microsoft or WSL2."
    first_action = "Give the machine more RAM in .wslconfig where loading or offloading needs it."
    verify = "`free -h` inside WSL2 shows the new size after `wsl --shutdown`."
    wrong_advice = (
        "expandable_segments:True; and looking for the neighbour in nvidia-smi's empty list of processes."
    )

    def check(self, asked: Asked) -> Answer:
        told = asked.environment.wsl
        if told is None:
            return NotHere()
        if not told.value:
            return Clear("the machine is no WSL2")
        ram = asked.environment.host.ram_bytes
        offloads = asked.job is not None and _offloads(asked.job)
        says = "This is WSL2: by default it has half of the computer's RAM"
        says += f" ({format_bytes(ram.value)} here)." if ram is not None else "."
        does = (
            "Expandable segments do nothing, pinned memory is limited to a part of that RAM, and processes on the GPU "
            "are not listed; a full GPU may spill into RAM and be slow instead of failing."
        )
        if offloads:
            does = f"The job keeps pinned buffers in RAM, which is where it meets the limit first. {does}"
        return (
            Problem(
                says=says,
                does=does,
                fix="Set memory= under [wsl2] in .wslconfig of the Windows user, then `wsl --shutdown`.",
                paste="[wsl2]\nmemory=48GB",
                subject="WSL2",
                severity=Severity.WARNING if offloads else Severity.NOTE,
                numbers={"ram_bytes": ram.value} if ram is not None else {},
                evidence=(told.quote,),
            ),
        )


def _offloads(job: Job) -> bool:
    return (
        job.optimizer.offload in ("cpu", "nvme") or job.parallel.offload_parameters or job.activation_offload
    )
