"""NCCL_IB_HCA names no RDMA device, or one of several."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.nccl_values import names
from oomph.diagnose.machine.settings import export, has_rdma, in_effect, machine_of, nodes, value_of
from oomph.evidence.environment.model import Environment, Variable

_NAME = "NCCL_IB_HCA"


class NcclIbHca(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV404"
    cause = "nccl_ib_hca"
    name = "nccl-ib-hca"
    means = (
        "NCCL_IB_HCA says which RDMA devices NCCL may use between machines (prefixes; `=` exact names, `^` all others, "
        "`:1` a port). Without such a device it does nothing, and traffic goes over TCP. With several, naming one "
        "leaves the others idle. Within a machine it plays no part."
    )
    decisive_evidence = "The list of RDMA devices (/sys/class/infiniband), or a machine type that has none."
    first_action = "Remove the variable: NCCL uses all active devices that are near a GPU."
    verify = (
        "NCCL_DEBUG=INFO prints `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ...` with all that are meant."
    )
    wrong_advice = "NCCL_IB_HCA=mlx5_0, copied to a machine with eight cards, or to a cloud without RDMA."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        answers: list[Problem | str] = []
        untold = ""
        for one in in_effect(environment, _NAME):
            if one.name != _NAME or one.value == "":
                continue
            rdma, why = has_rdma(environment)
            if one.value is None:
                untold = f"the text does not say what {_NAME} becomes"
            elif rdma is False:
                answers.append(_without(environment, one, why))
            elif rdma is None:
                untold = "no list of RDMA devices: `ls /sys/class/infiniband` tells it"
            else:
                answers.append(_judge(environment, one, one.value))
        problems = tuple(answer for answer in answers if isinstance(answer, Problem))
        if problems:
            return problems
        if untold:
            return CouldNotTell(untold)
        fine = [answer for answer in answers if isinstance(answer, str)]
        return Clear(fine[0]) if fine else NotHere()


def _without(environment: Environment, one: Variable, why: str) -> Problem:
    alone = nodes(environment) == 1
    asked_for = (value_of(environment, "NCCL_NET") or "").lower() == "ib"
    by_type = "has no RDMA network card" in why  # a host that has none cannot lend one
    does = "NCCL logs `NET/IB : No device found.` and uses TCP; the variable has no effect."
    if asked_for:
        does = (
            "NCCL finds no device, and NCCL_NET=IB forbids it another network: the job ends when it starts."
        )
    fix = "Remove it; what counts between these machines is the TCP interface or the cloud's own plugin."
    if not by_type:
        fix = "If this is a container on a host that has them, give it /dev/infiniband; else remove the variable."
    return Problem(
        says=f"{_NAME}={one.value}, and {why}.",
        does=does,
        fix=fix,
        paste=f"unset {_NAME}" if by_type or environment.container is None else "--device=/dev/infiniband",
        subject=_NAME,
        severity=Severity.WARNING if alone and not asked_for else Severity.ERROR,
        evidence=(one.quote,),
    )


def _judge(environment: Environment, one: Variable, value: str) -> Problem | str:
    machine = machine_of(environment)
    devices = environment.rdma_devices
    wanted = names(value)
    taken = [device for device in devices if wanted.takes(device)]
    there = ", ".join(devices)
    if machine is not None and machine.provider == "AWS":
        return Problem(
            says=f"{_NAME}={value} on {machine.name}: its RDMA devices are EFA, which NCCL reaches through libfabric.",
            does="NCCL's own InfiniBand code does not use them; the variable has no effect.",
            fix="Remove it, and see that aws-ofi-nccl is loaded (`NET/OFI` in NCCL's log).",
            paste=f"unset {_NAME}",
            subject=_NAME,
            severity=Severity.WARNING,
            evidence=(one.quote,),
        )
    if not taken:
        return Problem(
            says=f"{_NAME}={value} matches none of the RDMA devices of this machine ({there}).",
            does="NCCL finds no device and uses TCP between machines, many times slower.",
            fix="Remove it, so that NCCL uses all of them.",
            paste=f"unset {_NAME}",
            subject=_NAME,
            numbers={"devices": len(devices)},
            evidence=(one.quote,),
        )
    if len(taken) == 1 and len(devices) > 1:
        return Problem(
            says=f"{_NAME}={value} uses {taken[0]} alone of {len(devices)} RDMA devices ({there}).",
            does=f"{len(devices) - 1} stay idle: all GPUs of the machine share one link.",
            fix="Remove it, or name all that the GPUs are to use.",
            paste=f"unset {_NAME}",
            subject=_NAME,
            severity=Severity.WARNING,
            numbers={"devices": len(devices), "devices_used": 1},
            evidence=(one.quote,),
        )
    more = [name for name in taken if not wanted.exact and not wanted.excluded and name not in wanted.entries]
    plain = [name for name in wanted.entries if name in devices]
    if more and plain and len(taken) < len(devices):
        return Problem(
            says=f"{_NAME}={value} compares beginnings, so it takes {', '.join(more)} as well.",
            does="More devices than named are used.",
            fix="Put = before the list for exact names.",
            paste=export(_NAME, "=" + value),
            subject=_NAME,
            severity=Severity.NOTE,
            evidence=(one.quote,),
        )
    return f"{_NAME}={value} matches {len(taken)} of {len(devices)} RDMA devices"
