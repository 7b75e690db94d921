"""The job may use clearly less RAM than its part of the machine, or asks for more than there is."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.host_limits import Limit, limits, ram
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import gpus, machine_of
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.units import GIB, format_bytes

#: Below half of its part of the RAM, a job that takes the GPUs leaves the rest to nobody.
_LEAST_SHARE = 0.5
#: No machine of the table has more (a2-megagpu-16g has as many): what is taken where the number is not told.
_MOST_GPUS = 16
_SLURM = ("sbatch", "srun", "salloc")


class MemoryLimit(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV504"
    cause = "memory_limit_below_the_machine"
    name = "memory-limit-below-the-machine"
    means = (
        "A control group, Slurm's --mem or a pod's limit decides how much RAM the job has, whatever the machine has. "
        "A job that takes all GPUs and a small part of the RAM is killed while it loads, although `free` shows room. "
        "Without --mem, Slurm gives what the site has set (DefMemPerCPU, often a few GiB per core)."
    )
    decisive_evidence = "The limit against the machine's RAM, in proportion to the GPUs that the job has."
    first_action = (
        "Ask for the RAM that belongs to the GPUs: --mem=0 with all of a node, or a higher limit of the pod."
    )
    verify = "`cat /sys/fs/cgroup/memory.max` in the job shows the new limit."
    wrong_advice = "Trusting `free -h` in a container: it shows the machine, not the limit."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        found = limits(environment)
        slurm = [one for one in environment.launches if one.program in _SLURM]
        machine = ram(environment)
        if not found:
            if any(one.memory_bytes == 0 for one in environment.launches):
                return Clear("the job may use all of the machine's RAM")
            if slurm:
                return CouldNotTell(
                    "no --mem: the site's default decides (`scontrol show config | grep DefMem`); --mem=0 asks for all"
                )
            return NotHere()
        limit = min(found, key=lambda one: one.size_bytes)
        if machine is None:
            return CouldNotTell(
                f"{limit.what} is {format_bytes(limit.size_bytes)}; the machine's RAM is not told: `free -b` does"
            )
        return _judge(environment, limit, machine)


def _judge(environment: Environment, limit: Limit, machine: Limit) -> Answer:
    numbers = {"limit_bytes": limit.size_bytes, "ram_bytes": machine.size_bytes}
    evidence = tuple(dict.fromkeys((*limit.evidence, *machine.evidence)))
    sizes = f"{format_bytes(limit.size_bytes)}, and {machine.what} is {format_bytes(machine.size_bytes)}"
    if limit.size_bytes > machine.size_bytes:
        if limit.what.startswith("the control group"):
            return Clear(f"{limit.what} is above the machine's RAM, so RAM is what counts")
        kept = (
            "a scheduler that counts limits never starts it; else the kernel kills it before the limit does"
        )
        return (
            Problem(
                says=f"{limit.what[0].upper()}{limit.what[1:]} is {sizes}.",
                does=f"The job asks for more than there is: {kept}.",
                fix="Ask for less than the machine has, or for a larger machine.",
                subject="memory limit",
                severity=Severity.WARNING,
                numbers=numbers,
                evidence=evidence,
            ),
        )
    share, why = _share(environment)
    if share is None:
        return Clear(f"{limit.what} is {sizes}")
    part = machine.size_bytes * share
    if limit.size_bytes >= _LEAST_SHARE * part:
        return Clear(f"{limit.what} is {sizes}; {why}")
    percent = 100 * limit.size_bytes / machine.size_bytes
    return (
        Problem(
            says=f"{limit.what[0].upper()}{limit.what[1:]} is {sizes}: {percent:.0f} %, while {why}.",
            does="Loading and offloading have that much for all ranks together; beyond it a process is killed.",
            fix=f"Ask for its part of the RAM, {format_bytes(int(part))} less what the system keeps for itself.",
            paste=_paste(limit, int(part)),
            subject="memory limit",
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            numbers=numbers,
            evidence=evidence,
        ),
    )


def _paste(limit: Limit, part_bytes: int) -> str:
    """The line for whoever sets the limit; a node keeps about a tenth of its RAM from pods."""
    if any(limit.what.endswith(one) for one in _SLURM):
        return "#SBATCH --mem=0"
    gib = part_bytes * 9 // 10 // GIB
    if limit.what.endswith("Kubernetes"):
        return f"resources: {{limits: {{memory: {gib}Gi}}}}"
    return f"--memory={gib}g" if limit.what.endswith((" run", " compose")) else ""


def _share(environment: Environment) -> tuple[float | None, str]:
    """Which part of the machine's GPUs the job has, at least; None where it is not told."""
    machine = machine_of(environment)
    given = gpus(environment)
    shown = len(environment.cards)
    if not given:
        return None, ""
    if machine is not None and machine.count:
        whole = machine.count
    elif shown > given:
        whole = shown
    elif shown or any(one.gpus is not None for one in environment.launches):
        # What a container or a job shows may be its own part only.
        return min(
            given / _MOST_GPUS, 1.0
        ), f"the job has {given} GPUs, and no machine has more than {_MOST_GPUS}"
    else:
        return None, ""
    given = min(given, whole)
    return given / whole, f"the job has {given} of {whole} GPUs"
