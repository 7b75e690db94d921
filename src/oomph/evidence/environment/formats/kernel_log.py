"""The kernel log (dmesg, journalctl, /var/log/messages) and /proc/driver/nvidia/version: Xids, the driver's version,
and a client that has another one."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Xid
from oomph.evidence.environment.parts import Part

_XID = re.compile(
    r"NVRM: (?:GPU at [^\n]{1,80}: )?Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,20})(?: GPU-I:\d{1,3})?\): (\d{1,4})\b"
    r"(?:, pid='?(\d{1,10}|<unknown>)'?)?(?:, name='?([^,\n']{1,80})'?)?"
)
_TIME = re.compile(
    r"\[\s{0,8}([A-Z][a-z]{2} [A-Z][a-z]{2} [\d :]{8,20}|\d{1,9}\.\d{1,9})\]|([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"|(\d{4}-\d\d-\d\dT\S{8,30})"
)
_MODULE = re.compile(
    r"(?:NVRM version:|loading) (?:NVIDIA )?NVIDIA UNIX (?:Open )?(?:Kernel Module for )?[\w-]{3,12}\s{1,4}"
    r"(?:Kernel Module\s{1,4})?"
    r"(\d{2,4}(?:\.\d{1,4}){1,3})"
)
_CLIENT = re.compile(
    r"API mismatch: the client(?: '[^'\n]{1,60}' \(pid \d{1,10}\))? has the version (\d{2,4}(?:\.\d{1,4}){1,3})"
)
_KERNEL = re.compile(r"this kernel module has the version (\d{2,4}(?:\.\d{1,4}){1,3})")
_MODINFO = re.compile(r"version:\s{1,20}(\d{3}(?:\.\d{1,4}){1,3})\s*$")
_SEARCH = re.compile(
    r"(?:dmesg|journalctl)[^\n]{0,200}\|[^\n]{0,40}grep[^\n]{0,100}(?:xid|nvrm)", re.IGNORECASE
)
_KIND = "kernel log"
#: "[    5.123456] text", "[Tue Dec  1 01:20:22 2026] text", "Dec 01 01:20:22 host kernel: text".
_ENTRY = re.compile(r"^\[\s{0,12}\d{1,12}\.\d{1,9}\]|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} |\bkernel:|NVRM")


def parse(part: Part, found: Found) -> None:
    """Xids, drivers, libraries."""
    modinfo = part.program == "modinfo"
    for line in part.lines:
        text = line.text
        if len(text) > 2_000 or ("NVRM" not in text and "kernel module" not in text and not modinfo):
            continue
        quote = part.quote(line)
        xid = _XID.search(text)
        if xid is not None:
            found.take(part.source, _KIND)
            time = _TIME.search(text, 0, xid.start())
            known = xid[4] is not None and xid[4] not in ("<unknown>", "")
            found.add_xid(
                Xid(
                    number=int(xid[2]),
                    quote=quote,
                    bus_id=xid[1],
                    pid=int(xid[3]) if xid[3] and xid[3].isdigit() else None,
                    process=xid[4].strip() if known else "",
                    time=next((one for one in time.groups() if one), "") if time is not None else "",
                )
            )
            if "fallen off the bus" in text:
                found.add_error(quote)
            continue
        module = _MODULE.search(text) or _KERNEL.search(text) or (_MODINFO.match(text) if modinfo else None)
        if module is not None:
            found.take(part.source, _KIND if "NVRM version" not in text else "/proc/driver/nvidia/version")
            found.add("drivers", module[1], quote)
        client = _CLIENT.search(text)
        if client is not None:
            found.take(part.source, _KIND)
            found.add("driver_libraries", client[1], quote)
            found.add_error(quote)
    # A program that may not read the log prints a sentence, which is no log without an Xid.
    if part.program in ("dmesg", "journalctl") and any(_ENTRY.search(line.text[:200]) for line in part.lines):
        found.take(part.source, _KIND)
        found.told.add("xids")
    elif any("NVRM" in line.text for line in part.lines):
        found.told.add("xids")
    elif part.command is not None and not part.lines and _SEARCH.search(part.command.text) is not None:
        found.take(part.source, _KIND)  # searched, and nothing found
        found.told.add("xids")
