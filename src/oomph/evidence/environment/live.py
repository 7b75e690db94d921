"""This machine as an `Environment`: asked just now, nothing changed. What could not be read is in `missing`, each with
the reason and with what would tell it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.live_cards import cards, with_processes
from oomph.evidence.environment.live_python import python_packages
from oomph.evidence.environment.live_text import parsed
from oomph.evidence.environment.model import Card, Environment, Interface, Variable
from oomph.evidence.model import Quote
from oomph.probe.surroundings import (
    cloud,
    driver,
    kernel_log,
    memory,
    metadata,
    network,
    system,
    toolkit,
    variables,
)
from oomph.probe.surroundings.seen import ROOT, Seen, Untold

_HOST = {
    "ram": "ram_bytes",
    "available": "available_bytes",
    "swap": "swap_bytes",
    "swap_free": "swap_free_bytes",
}


def this_environment(
    *,
    python: str | None = None,
    pid: int | None = None,
    ask_cloud: bool = False,
    root: Path = ROOT,
    server: metadata.Server | None = None,
) -> Environment:
    """Everything that this machine tells of itself, its GPUs and the surroundings of a job on it.

    `python` is the interpreter whose PyTorch is looked at (None: this one). With `pid`, the variables and limits are
    those of that process, and what it has on the GPUs is its own. `ask_cloud` allows the question to the cloud's
    metadata server, the only one over a network. `root` and `server` are for tests.
    """
    found = Found()
    missing: dict[str, str] = {}
    asked = _variables(found, missing, root, pid)
    _system(found, missing, root, asked)
    _cloud(found, missing, root, ask_cloud, server)
    readable = cards(found, missing, root)
    _driver(found, missing, root, asked)
    python_packages(found, missing, python, readable, asked)
    _network(found, missing, root)
    _host(found, missing, root, pid)
    _kernel_log(found, missing, root, readable)
    environment = found.environment()
    return replace(
        environment,
        live=True,
        told=environment.told - frozenset(missing),
        missing=missing,
        cards=_with_processes(environment, root, pid),
    )


def quote_of(seen: Seen[object] | Seen[str] | Seen[int] | Seen[bool]) -> Quote:
    """What was asked and what it said, as a quote without a line."""
    return Quote(seen.source, 0, seen.text)


def _tell(found: Found, missing: dict[str, str], name: str, seen: object) -> None:
    """One of the single values, or why it is not known."""
    if isinstance(seen, Untold):
        missing[name] = seen.why
    elif isinstance(seen, Seen):
        found.tell(name, seen.value, quote_of(seen))


def _variables(found: Found, missing: dict[str, str], root: Path, pid: int | None) -> Mapping[str, str]:
    all_of_them = variables.environment(root, pid)
    source = "environment" if pid is None else f"/proc/{pid}/environ"
    if isinstance(all_of_them, Untold):
        missing["variables"] = all_of_them.why
        return {}
    for name, value in variables.of_interest(all_of_them).items():
        found.add_variable(Variable(name, value, "process", Quote(source, 0, f"{name}={value}")))
    found.told.add("variables")
    found.take(source, "environment variables")
    return all_of_them


def _system(found: Found, missing: dict[str, str], root: Path, asked: Mapping[str, str]) -> None:
    _tell(found, missing, "hostname", system.hostname(root))
    _tell(found, missing, "system", system.system(root))
    _tell(found, missing, "wsl", system.wsl(root))
    _tell(found, missing, "container", system.container(root, asked))


def _cloud(
    found: Found, missing: dict[str, str], root: Path, ask: bool, server: metadata.Server | None
) -> None:
    provider, machine_type = cloud.provider(root), cloud.machine_type(root)
    if isinstance(machine_type, Untold) and ask:
        known = provider.value if isinstance(provider, Seen) else ""
        answer = metadata.machine_type(known, server)
        if isinstance(answer, Untold):
            machine_type = answer
        else:
            name, machine_type = answer
            found.tell("provider", name, quote_of(machine_type))
            found.take(machine_type.source, "the machine's type")
    _tell(found, missing, "provider", provider)
    _tell(found, missing, "machine_type", machine_type)


def _driver(found: Found, missing: dict[str, str], root: Path, asked: Mapping[str, str]) -> None:
    kernel = driver.kernel_drivers(root)
    if isinstance(kernel, Untold):
        if not found.lists.get("drivers"):
            missing["drivers"] = kernel.why
    else:
        for one in kernel:
            found.add("drivers", one.value, quote_of(one))
            found.take(one.source, "the driver's version")
    if root == ROOT:
        for one in driver.driver_libraries():
            found.add("driver_libraries", one.value, quote_of(one))
    for one in toolkit.toolkits(root, asked):
        found.add("toolkits", one.value, quote_of(one))


def _network(found: Found, missing: dict[str, str], root: Path) -> None:
    links = network.interfaces(root)
    if isinstance(links, Untold):
        missing["interfaces"] = links.why
    else:
        for link in links:
            found.add_interface(Interface(link.name, link.up, link.addresses, link.kind))
        found.told.add("interfaces")
        found.take("/sys/class/net", "network interfaces")
    devices = network.rdma_devices(root)
    if isinstance(devices, Untold):
        missing["rdma_devices"] = devices.why
        return
    found.told.add("rdma_devices")
    for name in devices:
        found.add_rdma(name)
    if devices and not network.rdma_reachable(root):
        found.note(
            "RDMA devices are listed, and there is no /dev/infiniband: a container that was not given them, in which "
            "NCCL cannot use them."
        )


def _host(found: Found, missing: dict[str, str], root: Path, pid: int | None) -> None:
    for key, seen in memory.meminfo(root).items():
        found.add_host(_HOST[key], seen.value, quote_of(seen))
    if "ram_bytes" in found.host:
        found.take("/proc/meminfo", "main memory and swap")
    else:
        missing["host.ram_bytes"] = "there is no /proc/meminfo here: the output of `free -b` tells it"
    shared = memory.shared_memory(root)
    if isinstance(shared, Untold):
        missing["host.shm_bytes"] = shared.why
    else:
        found.add_host("shm_bytes", shared[0].value, quote_of(shared[0]))
        found.add_host("shm_free_bytes", shared[1].value, quote_of(shared[1]))
    limit = memory.cgroup_limit(root)
    if limit is not None:
        found.add_host("cgroup_limit_bytes", limit.value, quote_of(limit))
    for name, seen_or_not in (
        ("memlock_bytes", memory.locked_limit(root, pid)),
        ("vcpus", memory.vcpus(root)),
    ):
        if isinstance(seen_or_not, Untold):
            missing[f"host.{name}"] = seen_or_not.why
        else:
            found.add_host(name, seen_or_not.value, quote_of(seen_or_not))


def _kernel_log(found: Found, missing: dict[str, str], root: Path, readable: bool) -> None:
    lines = kernel_log.driver_lines(root)
    if isinstance(lines, Untold):
        missing["xids"] = lines.why
        return
    # A mismatch that the log still has may be mended since: it counts where the cards cannot be read.
    wanted = [line for line in lines if "Xid" in line or ("mismatch" in line and not readable)]
    parsed("\n".join(wanted), "kernel log", "dmesg", found)
    found.told.add("xids")
    found.take("kernel log", "Xid events of the GPUs")


def _with_processes(environment: Environment, root: Path, pid: int | None) -> tuple[Card, ...]:
    hidden = system.why_processes_are_hidden(root, privileged=_privileged())
    return with_processes(environment.cards, root, hidden, pid)


def _privileged() -> bool:
    return not hasattr(os, "geteuid") or os.geteuid() == 0
