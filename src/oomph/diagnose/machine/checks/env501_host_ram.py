"""The machine's RAM does not hold what loading the model takes."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.host_limits import lowest
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem
from oomph.diagnose.machine.settings import gpus
from oomph.diagnose.model import Certainty
from oomph.errors import OomphError
from oomph.job.model import Job
from oomph.predict.model import Host
from oomph.units import format_bytes


class HostRam(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV501"
    cause = "host_ram_too_small_to_load"
    name = "host-ram-too-small-to-load"
    means = (
        "Each process of a machine reads the weights into RAM before they go to its GPU, unless the model is made on "
        "the meta device or only the first rank reads. Eight ranks hold eight copies. What is offloaded to the host "
        "(optimizer states, parameters, activations) stays there. When RAM ends, the kernel kills a process: no CUDA "
        "error is printed."
    )
    decisive_evidence = (
        "The job's copies at load, or what it keeps on the host, against RAM or the limit on it."
    )
    first_action = "Load on rank 0 or on meta (FSDP: cpu_ram_efficient_loading; FSDP2: the meta device)."
    verify = "`free -h` while the job loads; dmesg shows no `Out of memory: Killed process`."
    wrong_advice = "A smaller batch or gradient checkpointing: neither changes what is read at the start."

    def check(self, asked: Asked) -> Answer:
        if asked.job is None:
            return NotHere()
        environment = asked.environment
        limit = lowest(environment)
        if limit is None:
            return CouldNotTell("the RAM of the machine is not told: `free -b` or `cat /proc/meminfo` does")
        host = _host(asked.job, gpus(environment))
        if host is None:
            return CouldNotTell("what the job needs of RAM is not modelled for it")
        parts = (
            ", ".join(f"{name} {format_bytes(size)}" for name, size in host.parts) or "nothing that counts"
        )
        need = max(host.load_bytes, host.train_bytes)
        when = "to load" if host.load_bytes >= host.train_bytes else "while it trains"
        if need <= limit.size_bytes:
            return Clear(
                f"the job needs {format_bytes(need)} of RAM {when} ({parts}), and {limit.what} is "
                f"{format_bytes(limit.size_bytes)}"
            )
        return (
            Problem(
                says=(
                    f"The job needs {format_bytes(need)} of RAM {when} ({parts}); {limit.what} is "
                    f"{format_bytes(limit.size_bytes)}."
                ),
                does="The kernel kills a process of the job (SIGKILL, exit code -9 or 137), without a traceback.",
                fix="Load one copy per machine, or give the job more RAM.",
                paste="fsdp_cpu_ram_efficient_loading: true" if when == "to load" else "",
                subject="RAM",
                certainty=Certainty.LIKELY,
                numbers={
                    "load_bytes": host.load_bytes,
                    "train_bytes": host.train_bytes,
                    "limit_bytes": limit.size_bytes,
                },
                evidence=limit.evidence,
            ),
        )


def _host(job: Job, on_machine: int | None) -> Host | None:
    from oomph.predict.plan import plan  # a job is rare among what doctor is asked

    if job.hardware.per_node is None and on_machine:
        job = replace(job, hardware=replace(job.hardware, per_node=on_machine))
    try:
        return plan(job, replay=False).host
    except OomphError:
        return None
