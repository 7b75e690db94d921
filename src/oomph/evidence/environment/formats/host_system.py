"""The operating system: `uname`, /etc/os-release, `lscpu`, `nproc`, `hostname`, and what says that a text was printed
inside a container or under WSL."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part, container_host

_UNAME = re.compile(r"Linux (\S{1,80}) (\d{1,2}\.\d{1,3}\S{0,80}) #\d{1,4}")
_RELEASE = re.compile(r"PRETTY_NAME=\"?([^\"\n]{3,100})")
_VERSION = re.compile(r"Linux version (\d{1,2}\.\d{1,3}\S{0,80})")
_CPUS = re.compile(r"(?:CPU\(s\)|CPU count|Number of CPUs|cpu count|- CPU count):\s{1,40}(\d{1,5})\s*$")
_CGROUP = re.compile(r"\d{1,3}:[\w,=]{0,80}:/\S{0,300}?(docker|kubepods|containerd|libpod|lxc)\b")
_WSL = re.compile(r"microsoft-standard(?:-WSL2)?|-Microsoft\b|\bWSL2\b.{0,40}kernel", re.IGNORECASE)
_KIND = "the operating system"


def parse(part: Part, found: Found) -> None:
    """system, wsl, container, hostname and the number of processors."""
    command = part.command
    if command is not None and container_host(command.host):
        found.tell("container", "Docker", part.quote(command.line))
        found.take(part.source, _KIND)
    for line in part.lines:
        text = line.text.strip()
        if not text or len(text) > 600:
            continue
        quote = part.quote(line)
        if _WSL.search(text) is not None and ("inux" in text or part.program == "uname"):
            found.tell("wsl", True, quote)
            found.take(part.source, _KIND)
        release = _RELEASE.match(text) or _VERSION.search(text)
        if release is not None:
            found.tell("system", release[1] if "PRETTY" in text else f"Linux {release[1]}", quote)
            found.take(part.source, _KIND)
        uname = _UNAME.match(text)
        if uname is not None:
            found.tell("system", f"Linux {uname[2]}", quote)
            found.tell("hostname", uname[1], quote)
            found.take(part.source, _KIND)
        cpus = _CPUS.match(text.lstrip("- "))
        if cpus is not None:
            found.add_host("vcpus", int(cpus[1]), quote)
            found.take(part.source, _KIND)
        if ".dockerenv" in text and "No such file" not in text and "cannot access" not in text:
            found.tell("container", "Docker", quote)
            found.take(part.source, _KIND)
        inside = _CGROUP.match(text)
        if inside is not None:
            found.tell("container", inside[1], quote)
            found.take(part.source, _KIND)
    _bare(part, found)


def _bare(part: Part, found: Found) -> None:
    """One line that only the command explains."""
    first = next((line for line in part.lines if line.text.strip()), None)
    if first is None or part.command is None:
        return
    value = first.text.strip()
    if part.program == "nproc" and value.isdigit() and len(value) < 6:
        found.add_host("vcpus", int(value), part.quote(first))
        found.take(part.source, _KIND)
    elif part.program == "hostname" and re.fullmatch(r"[\w.-]{1,100}", value):
        found.tell("hostname", value, part.quote(first))
        found.take(part.source, _KIND)
    elif part.program == "uname" and re.match(r"\d{1,2}\.\d", value):
        found.tell("system", f"Linux {value}", part.quote(first))
        found.take(part.source, _KIND)
