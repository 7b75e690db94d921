"""Which machine of a cloud it is: DMI as `dmidecode` and /sys/class/dmi/id show it, and instance metadata in files."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_GCP = re.compile(
    r"(?:projects/\d{1,20}/|zones/[\w-]{3,40}/)machineTypes/([a-z][\w-]{2,40})"
    r"|\bmachine[-_]?[tT]ype[\"']?\s{0,4}[:= ]\s{0,4}[\"']?((?:a2|a3|a4|a4x|g2|g4|n1|n2|n2d|c2|c3|e2)-[a-z0-9-]{4,30})"
)
#: Families with GPUs and the common ones beside them; a word of this shape alone is taken only behind a command.
_AWS = re.compile(
    r"[a-z]{1,3}\d{1,2}[a-z]{0,4}(?:-[a-z0-9]{1,8})?\.(?:\d{0,3}x?large|metal(?:-\d{1,2}xl)?)\Z"
)
_AZURE = re.compile(r"Standard_[A-Z]{1,3}\d{1,3}\w{0,30}\Z")
_LAMBDA = re.compile(r"gpu_\d{1,2}x_[a-z0-9_]{2,30}\Z")
_DMI = re.compile(
    r"(?:.{0,120}?/)?(sys_vendor|product_name|board_vendor|chassis_asset_tag|Manufacturer|Product Name):"
    r"\s{0,8}(\S[^\n]{0,80})$"
)
#: Fields of instance metadata and of the clouds' own tools: AWS' identity document and describe-instances, Azure's
#: instance metadata and `az vm show`, Lambda's API.
_FIELD = re.compile(
    r"\"?\b(?:vmSize|[iI]nstanceType|instance_type|instance-type)\"?\s{0,4}[:=]\s{0,4}(?:\{\s{0,8}\"name\":\s{0,4})?\"?([\w./:-]{3,200})"
)
_VENDORS = (
    ("Amazon", "AWS"),
    ("Google", "Google Cloud"),
    ("Microsoft Corporation", "Azure"),
    ("Lambda", "Lambda"),
    ("OracleCloud", "Oracle Cloud"),
    ("NVIDIA", "NVIDIA"),
    ("Supermicro", "Supermicro"),
    ("Dell Inc.", "Dell"),
    ("HPE", "HPE"),
    ("Lenovo", "Lenovo"),
)
_KIND = "the machine's type"


def parse(part: Part, found: Found) -> None:
    """machine_type and provider."""
    command = part.command.text if part.command is not None else ""
    asked = "dmi" in command or "dmidecode" in command or "product" in command or "vendor" in command
    metadata = "169.254.169.254" in command or "metadata" in command
    named = part.name.startswith(("product_name", "sys_vendor", "machine-type", "instance-type", "vmsize"))
    for line in part.lines[:5_000]:
        text = line.text.strip()
        if not text or len(text) > 20_000:
            continue
        field = _FIELD.search(text) if '"' in text or ":" in text else None
        if field is not None and _named(part, found, line, field[1].rpartition("/")[2]):
            continue
        google = _GCP.search(text)
        if google is not None:
            _told(part, found, line, google[1] or google[2], "Google Cloud")
            continue
        dmi = _DMI.match(text) if len(text) < 400 else None
        if dmi is not None:
            _dmi(part, found, line, dmi[2].strip())
        elif (asked or metadata or named) and len(text) < 400:
            _dmi(part, found, line, text)


def _told(part: Part, found: Found, line: Line, machine: str, provider: str) -> None:
    quote = part.quote(line)
    found.take(part.source, _KIND)
    found.tell("machine_type", machine, quote)
    found.tell("provider", provider, quote)


def _named(part: Part, found: Found, line: Line, value: str) -> bool:
    """Is the word a machine of a cloud?"""
    for pattern, provider in ((_AWS, "AWS"), (_AZURE, "Azure"), (_LAMBDA, "Lambda")):
        if pattern.match(value):
            _told(part, found, line, value, provider)
            return True
    return False


def _dmi(part: Part, found: Found, line: Line, value: str) -> None:
    if not _named(part, found, line, value):
        for vendor, provider in _VENDORS:
            if value.startswith(vendor) and len(value) < 60:
                found.take(part.source, _KIND)
                found.tell("provider", provider, part.quote(line))
                return
