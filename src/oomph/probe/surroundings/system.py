"""The operating system: its name, its kernel, whether it is WSL, and whether this is a container."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Seen, Untold, first_line, read, under

_GROUPS = re.compile(r"kubepods|docker|containerd|libpod|lxc|garden|crio")
#: inum of the first PID namespace (linux/proc_ns.h, PROC_PID_INIT_INO).
_FIRST_NAMESPACE = "pid:[4026531836]"


def hostname(root: Path = ROOT) -> Seen[str] | Untold:
    """The kernel's name for this machine."""
    name = first_line(root, "/proc/sys/kernel/hostname")
    return Seen(name, "/proc/sys/kernel/hostname", name) if name else Untold("there is no /proc here")


def system(root: Path = ROOT) -> Seen[str] | Untold:
    """The distribution with the kernel's release: "Ubuntu 22.04.4 LTS, Linux 5.15.0-105-generic"."""
    lines = (read(root, "/etc/os-release") or "").splitlines()
    names = [line.partition("=")[2].strip().strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")]
    kernel = first_line(root, "/proc/sys/kernel/osrelease")
    parts = [*names[:1], *([f"Linux {kernel}"] if kernel else [])]
    if not parts and root == ROOT:  # Windows, macOS
        return Seen(platform.platform(), "platform", platform.platform())
    if not parts:
        return Untold("there is neither /etc/os-release nor /proc here")
    return Seen(
        ", ".join(parts), "/etc/os-release" if names else "/proc/sys/kernel/osrelease", ", ".join(parts)
    )


def wsl(root: Path = ROOT) -> Seen[bool] | Untold:
    """Whether this is WSL2: its kernels are named "...-microsoft-standard-WSL2"."""
    place = "/proc/sys/kernel/osrelease"
    release = first_line(root, place)
    if not release:
        place, release = "/proc/version", first_line(root, "/proc/version")
    if not release:
        return Untold("there is no /proc here")
    return Seen("microsoft" in release.lower(), place, release)


def container(root: Path = ROOT, environment: Mapping[str, str] | None = None) -> Seen[str] | None:
    """What this container is ("docker", "podman", "kubernetes", "apptainer", ...); None where nothing says that it is
    one."""
    variables = environment or {}
    if "KUBERNETES_SERVICE_HOST" in variables:
        return Seen("kubernetes", "environment", "KUBERNETES_SERVICE_HOST is set")
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if name in variables:
            return Seen("apptainer", "environment", f"{name} is set")
    for place, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if under(root, place).exists():
            return Seen(kind, place, f"{place} is there")
    said = first_line(root, "/run/systemd/container")
    if said:
        return Seen(said, "/run/systemd/container", said)
    for line in (read(root, "/proc/1/cgroup") or "").splitlines():
        match = _GROUPS.search(line)
        if match:
            kind = "kubernetes" if match[0] == "kubepods" else match[0]
            return Seen(kind, "/proc/1/cgroup", line.strip())
    return None


def why_processes_are_hidden(root: Path = ROOT, *, privileged: bool = True) -> str:
    """Why a list of this machine's processes would not be whole; "" where it is. `privileged`: asked by root."""
    try:
        namespace = str(under(root, "/proc/self/ns/pid").readlink())
    except OSError:
        return "there is no /proc here that tells all processes"
    if namespace != _FIRST_NAMESPACE:
        return (
            "this is a container (a PID namespace of its own): processes of the host and of other containers are not "
            "seen from here"
        )
    if not privileged:
        for line in (read(root, "/proc/mounts") or "").splitlines():
            words = line.split()
            if len(words) > 3 and words[1] == "/proc" and re.search(r"hidepid=(?!0|off)", words[3]):
                return "/proc is mounted with hidepid: other users' processes are not seen (as root they are)"
    return ""
