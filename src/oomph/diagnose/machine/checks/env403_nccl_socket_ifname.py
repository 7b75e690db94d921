"""NCCL_SOCKET_IFNAME names no interface that NCCL can use."""

from __future__ import annotations

import re

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem
from oomph.diagnose.machine.nccl_values import Names, names
from oomph.diagnose.machine.settings import export, in_effect, nodes
from oomph.evidence.environment.model import Environment, Interface, Variable

_NAME = "NCCL_SOCKET_IFNAME"
#: What is no IP interface, by its name, and what it is.
_NEVER = (
    (re.compile(r"nv(?:link|switch)", re.IGNORECASE), "NVLink is no network interface"),
    (
        re.compile(r"(?:mlx[45]|bnxt_re|efa|irdma|rocep|rdmap)_?[0-9]"),
        "it is the name of an RDMA device (for NCCL_IB_HCA)",
    ),
    (re.compile(r"(?:cuda|gpu):?[0-9]*\Z", re.IGNORECASE), "it is the name of a GPU"),
    (re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"), "it is an address, and NCCL compares names"),
)
_LOCAL = ("lo", "docker", "virbr", "veth", "br-")


class NcclSocketIfname(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV403"
    cause = "nccl_socket_ifname"
    name = "nccl-socket-ifname"
    means = (
        "NCCL_SOCKET_IFNAME is a list of prefixes of IP interfaces (`eth` matches eth0; `=eth0` that one only; "
        "`^docker,lo` all others). Ranks meet over them, and data goes there where no RDMA is used. NVLink is not "
        "among them: it is chosen by topology. What is named must be there and running: NCCL does not look further."
    )
    decisive_evidence = (
        "The machine's list of interfaces has none that the value matches, or none that is up."
    )
    first_action = (
        "Remove the variable: NCCL finds the interface by itself. Else name one that `ip -br addr` shows UP."
    )
    verify = "NCCL_DEBUG=INFO prints `NCCL INFO Bootstrap: Using ens5:10.0.0.4<0>` with the interface meant."
    wrong_advice = (
        "Naming NVLink (nvlink0) to make NCCL use it: that ends the job with `no socket interface found`."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: list[Problem] = []
        fine: list[str] = []
        untold: list[str] = []
        for one in in_effect(environment, _NAME):
            if one.name != _NAME:
                continue
            if one.value is None:
                untold.append(f"the text does not say what {_NAME} becomes: `echo ${_NAME}` in the job does")
            elif len(one.value) < 2:  # ncclFindInterfaces passes over a shorter text
                fine.append(f"{_NAME} is set to nothing, so NCCL chooses by itself")
            else:
                _judge(environment, one, one.value, problems, fine, untold)
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold[0])
        return Clear(fine[0]) if fine else NotHere()


def _judge(
    environment: Environment,
    one: Variable,
    value: str,
    problems: list[Problem],
    fine: list[str],
    untold: list[str],
) -> None:
    wanted = names(value)
    several = (nodes(environment) or 1) > 1
    if not environment.tells("interfaces"):
        never = next((why for name in wanted.entries for rule, why in _NEVER if rule.match(name)), "")
        if never and not wanted.excluded:
            problems.append(_problem(environment, one, f"{_NAME}={value} names no interface: {never}."))
        elif several and _local_only(wanted):
            problems.append(_local(environment, one, value))
        else:
            untold.append(f"whether {value} matches an interface: `ip -br addr` on the machine lists them")
        return
    matched = [each for each in environment.interfaces if wanted.takes(each.name)]
    running = [each for each in matched if each.up is not False]
    if not matched:
        never = next((f": {why}" for name in wanted.entries for rule, why in _NEVER if rule.match(name)), "")
        there = ", ".join(each.name for each in environment.interfaces) or "none"
        says = f"{_NAME}={value} matches no interface of this machine{never}. It has {there}."
        problems.append(_problem(environment, one, says))
    elif not running:
        down = ", ".join(each.name for each in matched)
        problems.append(_problem(environment, one, f"{_NAME}={value} matches {down}, which is not up."))
    elif several and all(_is_local(each) for each in running):
        problems.append(_local(environment, one, value))
    elif several and wanted.excluded and _is_loopback(running[0]):
        says = f"{_NAME}={value} leaves lo in, and ranks meet over the first interface that is left: lo."
        problems.append(_problem(environment, one, says, f"^lo,{value[1:]}" if not wanted.exact else None))
    else:
        fine.append(f"{_NAME}={value} matches {', '.join(each.name for each in running)}")


def _local(environment: Environment, one: Variable, value: str) -> Problem:
    count = nodes(environment)
    return _problem(
        environment,
        one,
        f"{_NAME}={value} stays inside one machine, and the job runs on {count}.",
        does="Each machine meets itself only: the ranks of the others time out.",
    )


def _problem(
    environment: Environment, one: Variable, says: str, right: str | None = None, does: str = ""
) -> Problem:
    usable = [
        each for each in environment.interfaces if each.up and not _is_local(each) and each.kind != "virtual"
    ]
    if right is None and len(usable) == 1:
        right = usable[0].name
    if right is not None:
        fix = f"Remove the variable, or name {right}."
    elif usable:
        choice = ", ".join(each.name for each in usable)
        fix = f"Remove the variable, or name the one that the machines share: {choice}."
    else:
        fix = "Remove the variable; `ip -br addr` lists the interfaces, should NCCL choose a wrong one."
    return Problem(
        says=says,
        does=does
        or "NCCL does not look for another: `Bootstrap : no socket interface found`, and the job ends.",
        fix=fix,
        paste=export(_NAME, right) if right is not None else f"unset {_NAME}",
        subject=_NAME,
        evidence=(one.quote,),
    )


def _local_only(wanted: Names) -> bool:
    return not wanted.excluded and all(
        name == "lo" or name.startswith(("docker", "virbr", "veth")) for name in wanted.entries
    )


def _is_loopback(each: Interface) -> bool:
    return each.kind == "loopback" or each.name == "lo"


def _is_local(each: Interface) -> bool:
    return _is_loopback(each) or each.name.startswith(_LOCAL)
