"""Network interfaces: `ip addr`, `ip -br addr`, `ip link`, `ifconfig`, `ls /sys/class/net`."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Interface
from oomph.evidence.environment.parts import Part

_NAME = r"[A-Za-z][\w.-]{0,30}"
_IP = re.compile(
    rf"\s{{0,4}}\d{{1,5}}: ({_NAME})(?:@[\w.-]{{1,20}})?: <([A-Z0-9_,-]{{0,120}})>([^\n]{{0,300}})"
)
_LINK = re.compile(r"\s{1,12}link/(\w{1,20})")
_ADDRESS = re.compile(r"\s{1,12}inet6? (?:addr:\s?)?([0-9A-Fa-f.:]{2,45})")
_BRIEF = re.compile(
    rf"({_NAME})(?:@[\w.-]{{1,20}})?\s{{1,30}}(UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)\b([^\n]{{0,1000}})$"
)
_IFCONFIG = re.compile(rf"({_NAME}): flags=\d{{1,6}}<([A-Z0-9_,]{{0,120}})>")
_OLD_IFCONFIG = re.compile(rf"({_NAME})\s{{2,20}}Link encap:(\w{{1,20}})")
_VIRTUAL = re.compile(
    r"(?:docker|veth|br-|virbr|cni|flannel|cali|tunl|vxlan|lxc|kube|dummy|tap|tun|cilium|nodelocaldns|podman)"
)
_KIND = "network interfaces"


def kind(name: str, link: str = "") -> str:
    """The kind of an interface by its link type and its name."""
    if link == "loopback" or name == "lo":
        return "loopback"
    if link == "infiniband" or re.match(r"ib(?:\d|p|s)", name):
        return "infiniband"
    if _VIRTUAL.match(name):
        return "virtual"
    return "ethernet" if link in ("ether", "Ethernet") or re.match(r"(?:eth|en[opsx]|ens)\w", name) else ""


def parse(part: Part, found: Found) -> None:
    """Interfaces with their addresses."""
    if part.program == "ls" and part.command is not None and "/sys/class/net" in part.command.text:
        _listed(part, found)
        return
    current = ""
    for line in part.lines:
        text = line.text
        if len(text) > 2_000:
            continue
        head = _IP.match(text) or _IFCONFIG.match(text)
        if head is not None:
            current = head[1]
            flags = head[2].split(",")
            down = "state DOWN" in text or "UP" not in flags
            _add(part, found, Interface(current, not down, (), kind(current)))
            continue
        old = _OLD_IFCONFIG.match(text)
        if old is not None:
            current = old[1]
            _add(part, found, Interface(current, None, (), kind(current, old[2])))
            continue
        brief = _BRIEF.match(text) if "  " in text else None
        if brief is not None and _is_brief(brief[3]):
            addresses = tuple(
                word.partition("/")[0]
                for word in brief[3].split()
                if re.match(r"[0-9A-Fa-f.:]{2,45}/\d", word)
            )
            _add(part, found, Interface(brief[1], brief[2] != "DOWN", addresses, kind(brief[1])))
            continue
        if not text[:1].isspace():
            current = ""
        elif current:
            link, address = _LINK.match(text), _ADDRESS.match(text)
            if link is not None:
                _add(part, found, Interface(current, None, (), kind(current, link[1])))
            elif address is not None:
                _add(part, found, Interface(current, None, (address[1],), kind(current)))


def _is_brief(rest: str) -> bool:
    """Addresses, or a MAC address with flags: nothing else follows the state."""
    words = rest.split()
    return all(
        re.match(r"(?:[0-9A-Fa-f.:]{2,60}(?:/\d{1,3})?|<[A-Z0-9_,-]{1,120}>|metric|peer|\d{1,6})$", word)
        for word in words
    )


def _listed(part: Part, found: Found) -> None:
    for line in part.lines:
        for word in line.text.split("->")[0].split():
            if (
                re.fullmatch(_NAME, word)
                and word != "total"
                and not word.startswith(("lrwx", "drwx", "root"))
            ):
                if (
                    part.command is not None
                    and " -l" in part.command.text
                    and not line.text.rstrip().endswith(word)
                ):
                    if "->" not in line.text or line.text.split("->")[0].split()[-1] != word:
                        continue
                _add(part, found, Interface(word, None, (), kind(word)))


def _add(part: Part, found: Found, interface: Interface) -> None:
    found.take(part.source, _KIND)
    found.add_interface(interface)
