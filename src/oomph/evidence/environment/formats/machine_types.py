"""Which machine of a cloud it is: DMI as `dmidecode` and /sys/class/dmi/id show it, and instance metadata in files."""

from __future__ import annotations

import json
import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_GCP = re.compile(r"(?:projects/\d{1,20}/|zones/[\w-]{3,40}/)machineTypes/([a-z][\w-]{2,40})")
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
        if not text or len(text) > 400:
            continue
        google = _GCP.search(text)
        if google is not None:
            _told(part, found, line, google[1], "Google Cloud")
            continue
        field = _DMI.match(text)
        if field is not None:
            _dmi(part, found, line, field[2].strip())
        elif asked or metadata or named:
            _dmi(part, found, line, text)
    _document(part, found)


def _told(part: Part, found: Found, line: Line, machine: str, provider: str) -> None:
    quote = part.quote(line)
    found.take(part.source, _KIND)
    found.tell("machine_type", machine, quote)
    found.tell("provider", provider, quote)


def _dmi(part: Part, found: Found, line: Line, value: str) -> None:
    if _AWS.match(value):
        _told(part, found, line, value, "AWS")
    elif _AZURE.match(value):
        _told(part, found, line, value, "Azure")
    elif _LAMBDA.match(value):
        _told(part, found, line, value, "Lambda")
    else:
        for vendor, provider in _VENDORS:
            if value.startswith(vendor) and len(value) < 60:
                found.take(part.source, _KIND)
                found.tell("provider", provider, part.quote(line))
                return


def _document(part: Part, found: Found) -> None:
    """Instance metadata as JSON: AWS' identity document, Azure's instance metadata, Google's instance or `gcloud`."""
    text = part.text.strip()
    if (
        not text.startswith("{")
        or len(text) > 2_000_000
        or not re.search(r"instanceType|vmSize|machineType|instance_type", text)
    ):
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    compute = document.get("compute")
    inner = compute if isinstance(compute, dict) else document
    for key, provider in (("vmSize", "Azure"), ("instanceType", "AWS"), ("machineType", "Google Cloud")):
        value = inner.get(key)
        if isinstance(value, str) and 2 < len(value) < 200:
            line = next((one for one in part.lines if f'"{key}"' in one.text), part.lines[0])
            _told(part, found, line, value.rpartition("/")[2], provider)
            return
    kind = document.get("instance_type")
    name = kind.get("name") if isinstance(kind, dict) else kind
    if isinstance(name, str) and _LAMBDA.match(name):
        _told(part, found, part.lines[0], name, "Lambda")
