"""The limit of locked memory is too low for RDMA."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import has_rdma, nodes
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from oomph.units import GIB, format_bytes


class MemlockLimit(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV503"
    cause = "memlock_limit"
    name = "memlock-limit"
    means = (
        "RDMA registers memory with the network card, and what is registered counts against `ulimit -l` (64 KiB or "
        "8 MiB by default). With a low limit NCCL's registration fails: `ibv_reg_mr_iova2 failed with error Cannot "
        "allocate memory`. Without RDMA the limit plays no part: CUDA pins memory through its driver, which does not "
        "ask it."
    )
    decisive_evidence = "A limit other than unlimited on a machine with RDMA devices."
    first_action = (
        "Set it to unlimited: limits.conf, LimitMEMLOCK= of a service, --ulimit memlock=-1 of a container."
    )
    verify = "`ulimit -l` in the job prints unlimited."
    wrong_advice = "pin_memory=False against this error: the loader's pinned memory is not what is limited."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        limit = _limit(environment)
        if limit is None:
            return NotHere()
        size, program, quote = limit
        if size < 0:
            return Clear("locked memory has no limit")
        rdma, why = has_rdma(environment)
        if rdma is None:
            return CouldNotTell(
                f"locked memory is limited to {format_bytes(size)}, which matters with RDMA only: "
                "`ls /sys/class/infiniband` tells whether the machine has it"
            )
        if not rdma:
            return Clear(
                f"locked memory is limited to {format_bytes(size)}, which only RDMA would meet, and {why}"
            )
        alone = nodes(environment) == 1
        severity = Severity.NOTE if alone else Severity.ERROR if size < GIB else Severity.WARNING
        return (
            Problem(
                says=f"Locked memory is limited to {format_bytes(size)} (ulimit -l), and {why}.",
                does="NCCL cannot register buffers with the network card: `Cannot allocate memory`, and the job ends."
                if not alone
                else "A job on this machine alone does not meet the limit; one over several does.",
                fix="Lift the limit for the job.",
                paste="--ulimit memlock=-1"
                if program.startswith(("docker", "podman"))
                else "ulimit -l unlimited",
                subject="ulimit -l",
                severity=severity,
                numbers={"memlock_bytes": size},
                evidence=(quote,),
            ),
        )


def _limit(environment: Environment) -> tuple[int, str, Quote] | None:
    """(bytes or -1, what sets it, where): what a container asks for before what the machine says."""
    for one in environment.launches:
        if one.pinned_limit_bytes is not None:
            return one.pinned_limit_bytes, one.program, one.quote
    told = environment.host.memlock_bytes
    return (told.value, "", told.quote) if told is not None else None
