"""Less RAM or fewer cores are there than the machine type has."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import machine_of, quotes
from oomph.units import format_bytes

#: What the kernel and the firmware keep is below 4 % on machines that were seen; clouds that mean 10**9 by GB cost 7 %.
_LEAST_SHARE = 0.9


class LessRamOrCores(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV303"
    cause = "less_ram_or_cores_than_the_machine_type"
    name = "less-ram-or-cores-than-the-machine-type"
    means = (
        "The operating system sees clearly less RAM, or fewer virtual cores, than the cloud sells with this machine "
        "type: another size of the type, cores without their second thread, or a part that is kept from it."
    )
    decisive_evidence = (
        "MemTotal of /proc/meminfo below 90 % of the type's RAM, or fewer CPUs than its vCPUs."
    )
    first_action = (
        "Ask the machine for its type, and the cloud's console for its setting of threads per core."
    )
    verify = "`nproc` and `free -h` show the type's numbers (RAM a few percent less)."
    wrong_advice = "Counting with the number of the price list when the workers of a loader are chosen."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        host = environment.host
        machine = machine_of(environment)
        if environment.machine_type is None:
            return NotHere()
        if machine is None:
            return CouldNotTell(f"the machine type {environment.machine_type.value} is not in the table")
        problems: list[Problem] = []
        fine: list[str] = []
        wanted = machine.host_bytes if not {"ram", "host"} & set(machine.unchecked) else None
        if host.ram_bytes is not None and wanted is not None:
            ram = host.ram_bytes.value
            if ram < _LEAST_SHARE * wanted:
                problems.append(
                    Problem(
                        says=f"{machine.name} has {format_bytes(wanted)} of RAM; the system sees {format_bytes(ram)}.",
                        does="Loading that was planned with the type's RAM ends with a killed process.",
                        fix="Ask the machine for its type; plan with what the system sees.",
                        paste="free -h; nproc",
                        subject="RAM",
                        severity=Severity.WARNING,
                        numbers={"ram_bytes": ram, "ram_of_the_type_bytes": wanted},
                        evidence=quotes(environment.machine_type, host.ram_bytes),
                    )
                )
            else:
                fine.append(f"{format_bytes(ram)} of {format_bytes(wanted)} RAM")
        cores = machine.vcpus if not {"vcpus", "cpu"} & set(machine.unchecked) else 0
        if host.vcpus is not None and cores and environment.container is None:
            if host.vcpus.value < cores:
                half = (
                    " Half of them: the second thread of each core is off."
                    if 2 * host.vcpus.value == cores
                    else ""
                )
                problems.append(
                    Problem(
                        says=f"{machine.name} has {cores} vCPUs, and the system sees {host.vcpus.value}.{half}",
                        does="Data loaders and NCCL's own threads share fewer cores.",
                        fix="Choose workers by what `nproc` says.",
                        paste="nproc; lscpu | grep -i thread",
                        subject="vCPUs",
                        severity=Severity.WARNING,
                        numbers={"vcpus": host.vcpus.value, "vcpus_of_the_type": cores},
                        evidence=quotes(environment.machine_type, host.vcpus),
                    )
                )
            else:
                fine.append(f"{host.vcpus.value} of {cores} vCPUs")
        if problems:
            return tuple(problems)
        if fine:
            return Clear(f"{machine.name}: {' and '.join(fine)} are seen")
        return CouldNotTell(
            f"neither RAM nor cores of the {machine.name} are told and in the table: `free -b; nproc` tells them"
        )
