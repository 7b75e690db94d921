"""RDMA devices: `ibv_devices`, `ibv_devinfo`, `ibstat`, `rdma link`, `ls /sys/class/infiniband`; also that there is
none, which is a fact of its own."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part

_DEVICE = r"[A-Za-z][\w.-]{0,40}"
_DEVICES = re.compile(rf"\s{{1,12}}({_DEVICE})\s{{2,30}}[0-9a-f]{{16}}\s*$")
_INFO = re.compile(rf"\s{{0,4}}hca_id:\s{{1,12}}({_DEVICE})")
_STAT = re.compile(rf"\s{{0,4}}CA '({_DEVICE})'")
_LINK = re.compile(rf"\s{{0,4}}link ({_DEVICE})/\d{{1,3}} state \w")
_NONE = re.compile(
    r"No IB devices found|No Infiniband devices|/sys/class/infiniband/?'?: No such file", re.IGNORECASE
)
_PROGRAMS = frozenset({"ibv_devices", "ibv_devinfo", "ibstat", "ibstatus"})
_KIND = "RDMA devices"


def parse(part: Part, found: Found) -> None:
    """Devices by name."""
    if part.program == "ls" and part.command is not None and "/sys/class/infiniband" in part.command.text:
        found.take(part.source, _KIND)
        found.add_rdma()
        for line in part.lines:
            if _NONE.search(line.text) is None and "cannot access" not in line.text:
                for word in line.text.partition("->")[0].split()[-1 if "->" in line.text else 0 :]:
                    if re.fullmatch(r"[a-z]\w{2,30}", word) and word != "total":
                        found.add_rdma(word)
        return
    header = False
    for line in part.lines:
        text = line.text
        if len(text) > 400:
            continue
        if _NONE.search(text) is not None:
            found.take(part.source, _KIND)
            found.add_rdma()
            continue
        if re.match(r"\s{0,4}device\s{2,30}node GUID", text):
            header = True
            found.take(part.source, _KIND)
            found.add_rdma()
            continue
        match = _INFO.match(text) or _STAT.match(text) or _LINK.match(text)
        if match is None and header:
            match = _DEVICES.match(" " + text)
        if match is not None:
            found.take(part.source, _KIND)
            found.add_rdma(match[1])
