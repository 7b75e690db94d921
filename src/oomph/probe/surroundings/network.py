"""Network interfaces and RDMA devices, by /sys/class."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Untold, first_line, read, under

#: Of /sys/class/net/NAME/type: ARPHRD_LOOPBACK and ARPHRD_INFINIBAND (linux/if_arp.h).
_LOOPBACK, _INFINIBAND = "772", "32"
#: IFF_UP (linux/if.h).
_UP = 0x1
_SIOCGIFADDR = 0x8915  # linux/sockios.h
#: Names that container runtimes, hypervisors and tunnels give. A container's own eth0 is a virtual device too, and the
#: one that its jobs use: only the name tells the two apart.
_VIRTUAL = re.compile(
    r"(?:docker|veth|br-|virbr|cni|flannel|cali|cilium|lxc|lxd|vnet|tap|tun|dummy|ifb|podman|kube|nodelocaldns|wg)"
)


@dataclass(frozen=True)
class Link:
    """A network interface. `kind` is "ethernet", "loopback", "infiniband" (IPoIB) or "virtual"."""

    name: str
    up: bool | None = None
    addresses: tuple[str, ...] = ()
    kind: str = ""


def interfaces(
    root: Path = ROOT, address: Callable[[str], str | None] | None = None
) -> tuple[Link, ...] | Untold:
    """All interfaces. `address` tells an interface's IPv4 address (None: the kernel is asked)."""
    try:
        names = sorted(entry.name for entry in under(root, "/sys/class/net").iterdir() if entry.is_dir())
    except OSError:
        return Untold("there is no /sys/class/net here: the output of `ip addr` tells the interfaces")
    ask = address or _ipv4
    sixes = _ipv6(root)
    found = []
    for name in names:
        four = ask(name)
        addresses = ((four,) if four else ()) + tuple(sixes.get(name, ()))
        found.append(Link(name, _up(root, name), addresses, _kind(root, name)))
    return tuple(found)


def rdma_devices(root: Path = ROOT) -> tuple[str, ...] | Untold:
    """Names of RDMA devices (mlx5_0, efa_0). Without an RDMA driver the kernel has no such class: there are none."""
    if not under(root, "/sys/class").is_dir():
        return Untold("there is no /sys/class here: the output of `ibv_devices` tells the RDMA devices")
    try:
        return tuple(sorted(entry.name for entry in under(root, "/sys/class/infiniband").iterdir()))
    except OSError:
        return ()


def rdma_reachable(root: Path = ROOT) -> bool:
    """Whether programs can open the devices: a container sees them in /sys, and needs /dev/infiniband too."""
    return under(root, "/dev/infiniband").is_dir()


def _up(root: Path, name: str) -> bool | None:
    state = first_line(root, f"/sys/class/net/{name}/operstate")
    if state in ("up", "down"):
        return state == "up"
    try:
        return bool(int(first_line(root, f"/sys/class/net/{name}/flags"), 16) & _UP)
    except ValueError:
        return None


def _kind(root: Path, name: str) -> str:
    number = first_line(root, f"/sys/class/net/{name}/type")
    if number == _LOOPBACK:
        return "loopback"
    if number == _INFINIBAND:
        return "infiniband"
    bridge = under(root, f"/sys/class/net/{name}/bridge").is_dir()
    return "virtual" if bridge or _VIRTUAL.match(name) else "ethernet"


def _ipv4(name: str) -> str | None:
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    except (ImportError, OSError, ValueError):
        return None


def _ipv6(root: Path) -> dict[str, list[str]]:
    """By /proc/net/if_inet6: 32 digits, index, prefix length, scope, flags, name."""
    found: dict[str, list[str]] = {}
    for line in (read(root, "/proc/net/if_inet6") or "").splitlines():
        words = line.split()
        if len(words) == 6 and len(words[0]) == 32:
            try:
                address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))
            except (ValueError, OSError):
                continue
            found.setdefault(words[5], []).append(address)
    return found
