"""A path of NCCL that is switched off, mostly left over from debugging."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.gpu_models import has_p2p
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.nccl_values import number
from oomph.diagnose.machine.settings import gpus, has_rdma, in_effect, nodes
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Variable

_NAMES = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_NET")


class NcclPathSwitchedOff(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV406"
    cause = "nccl_path_switched_off"
    name = "nccl-path-switched-off"
    means = (
        "NCCL copies between the GPUs of a machine directly (P2P: NVLink or PCIe), else through host memory (SHM), and "
        "between machines by RDMA, else over TCP. Each path can be switched off to find an error. Left off, it makes "
        "every collective slower, many times where NVLink or RDMA is what is missing."
    )
    decisive_evidence = "The variable is 1, and the machine has the path: cards with P2P, or RDMA devices."
    first_action = (
        "Remove the variable; if the job hangs without it, look for the cause (ACS or IOMMU for P2P)."
    )
    verify = (
        "NCCL_DEBUG=INFO prints `via P2P/...` between GPUs of the machine, and `NET/IB` between machines."
    )
    wrong_advice = (
        "NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 against out-of-memory or hangs: they hide a fault and cost speed. "
        "(On GeForce cards without P2P the first changes nothing.)"
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: list[Problem] = []
        fine: list[str] = []
        untold = ""
        for one in in_effect(environment, "NCCL_"):
            if one.name not in _NAMES:
                continue
            if one.value is None:
                untold = f"the text does not say what {one.name} becomes"
            elif _switches_off(one, one.value):
                answer = _judge(environment, one)
                if isinstance(answer, Problem):
                    problems.append(answer)
                elif isinstance(answer, Clear):
                    fine.append(answer.why)
                else:
                    untold = answer.why
            else:
                fine.append(f"{one.name}={one.value} switches nothing off")
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold)
        return Clear("; ".join(fine)) if fine else NotHere()


def _switches_off(one: Variable, value: str) -> bool:
    """As NCCL compares: P2P and SHM with 1, IB with anything but 0; a level of LOC (or 0) forbids P2P."""
    if one.name == "NCCL_NET":
        return value.lower() == "socket"
    if one.name == "NCCL_P2P_LEVEL":
        return value == "LOC" or ("0" <= value[:1] <= "9" and number(value).value == 0)
    read = number(value).value
    return read == 1 if one.name != "NCCL_IB_DISABLE" else bool(read)


def _judge(environment: Environment, one: Variable) -> Problem | Clear | CouldNotTell:
    if one.name in ("NCCL_IB_DISABLE", "NCCL_NET"):
        return _network(environment, one)
    count = gpus(environment)
    if count == 1:
        return Clear(f"{one.name}={one.value} changes nothing: the job has one GPU on the machine")
    if one.name == "NCCL_SHM_DISABLE":
        return _problem(
            one,
            "GPUs that cannot copy directly use the network card, or TCP, inside the machine.",
            Certainty.CERTAIN if count else Certainty.LIKELY,
        )
    names = list(dict.fromkeys(card.name for card in environment.cards if card.name))
    known = [has_p2p(name) for name in names]
    if names and all(each is False for each in known):
        return Clear(
            f"{one.name}={one.value} costs nothing: {', '.join(names)} cannot copy directly to each other"
        )
    if names and True not in known:
        return CouldNotTell(
            f"whether {one.name}={one.value} costs anything on {', '.join(names)}: `nvidia-smi topo -m` tells if an "
            "NVLink bridge joins them"
        )
    return _problem(
        one,
        "Traffic between GPUs of the machine goes through host memory instead of NVLink or PCIe, and through /dev/shm, "
        "which then has to be large enough.",
        Certainty.CERTAIN if names else Certainty.LIKELY,
    )


def _network(environment: Environment, one: Variable) -> Problem | Clear | CouldNotTell:
    if nodes(environment) == 1:
        return Clear(f"{one.name}={one.value} changes nothing: the job runs on one machine")
    rdma, why = has_rdma(environment)
    if rdma is None:
        return CouldNotTell(
            f"whether {one.name}={one.value} costs anything: `ls /sys/class/infiniband` tells if the machine has RDMA"
        )
    if not rdma:
        return Clear(f"{one.name}={one.value} costs nothing: {why}")
    return _problem(one, f"Traffic between machines goes over TCP, although {why}.", Certainty.CERTAIN)


def _problem(one: Variable, does: str, certainty: Certainty) -> Problem:
    path = {"NCCL_SHM_DISABLE": "copies through host memory", "NCCL_IB_DISABLE": "RDMA", "NCCL_NET": "RDMA"}
    return Problem(
        says=f"{one.name}={one.value} switches off {path.get(one.name, 'direct copies between GPUs')}.",
        does=does,
        fix="Remove it.",
        paste=f"unset {one.name}",
        subject=one.name,
        severity=Severity.WARNING,
        certainty=certainty,
        evidence=(one.quote,),
    )
