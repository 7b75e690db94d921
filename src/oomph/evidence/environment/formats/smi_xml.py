"""`nvidia-smi -q -x`: the same report as XML. It is read by its tags alone: entities are never expanded, a cut end
costs only what is missing."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import smi_query
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,80})((?:\s[^<>]{0,200})?)>([^<]{0,400})")
_ID = re.compile(r"id=\"([0-9A-Fa-f:.]{4,40})\"")
#: Tags whose words in the plain report are not theirs with blanks and capitals.
_NAMES = {
    "product_name": "Product Name",
    "uuid": "GPU UUID",
    "minor_number": "Minor Number",
    "persistence_mode": "Persistence Mode",
    "compute_mode": "Compute Mode",
    "display_active": "Display Active",
    "mig_mode": "MIG Mode",
    "current_mig": "Current",
    "mig_device": "MIG Device",
    "index": "Index",
    "driver_model": "Driver Model",
    "current_dm": "Current",
    "pci": "PCI",
    "pci_bus_id": "Bus Id",
    "fb_memory_usage": "FB Memory Usage",
    "total": "Total",
    "reserved": "Reserved",
    "used": "Used",
    "free": "Free",
    "utilization": "Utilization",
    "gpu_util": "Gpu",
    "ecc_mode": "ECC Mode",
    "current_ecc": "Current",
    "ecc_errors": "ECC Errors",
    "volatile": "Volatile",
    "aggregate": "Aggregate",
    "double_bit": "Double Bit",
    "sram_uncorrectable": "SRAM Uncorrectable",
    "sram_uncorrectable_parity": "SRAM Uncorrectable Parity",
    "sram_uncorrectable_secded": "SRAM Uncorrectable SEC-DED",
    "dram_uncorrectable": "DRAM Uncorrectable",
    "device_memory": "Device Memory",
    "retired_pages": "Retired Pages",
    "pending_blacklist": "Pending Page Blacklist",
    "pending_retirement": "Pending",
    "remapped_rows": "Remapped Rows",
    "remapped_row_pending": "Pending",
    "remapped_row_failure": "Remapping Failure Occurred",
    "processes": "Processes",
    "pid": "Process ID",
    "type": "Type",
    "process_name": "Name",
    "used_memory": "Used GPU Memory",
}
_HEADER = {
    "driver_version": "Driver Version",
    "cuda_version": "CUDA Version",
    "attached_gpus": "Attached GPUs",
}
#: Sections that only group.
_PLAIN = frozenset({"nvidia_smi_log", "mig_devices", "process_info"})
_UNDER_PROCESS = ("type", "process_name", "used_memory")


def parse(part: Part, found: Found) -> bool:
    """Whether it is such a report; cards, drivers and the driver's CUDA version."""
    if not any("<nvidia_smi_log" in line.text or "<fb_memory_usage" in line.text for line in part.lines):
        return False
    rows: list[Line] = [Line("==============NVSMI LOG==============", 1)]
    depth: list[str] = []
    for line in part.lines:
        for match in _TAG.finditer(line.text):
            _row(rows, depth, match, line)
    smi_query.parse(Part(part.source, rows, part.command), found)
    return True


def _row(rows: list[Line], depth: list[str], match: re.Match[str], line: Line) -> None:
    """The plain report's line of a tag."""
    closing, tag, attributes, value = match[1], match[2], match[3], match[4].strip()
    if tag in _PLAIN:
        return
    if closing:
        if depth and depth[-1] == tag:
            depth.pop()
        return
    if tag == "gpu" and (bus := _ID.search(attributes)) is not None:
        depth.clear()
        rows.append(Line(f"GPU {bus[1]}", line.number))
        return
    if tag in _HEADER:
        rows.append(Line(f"{_HEADER[tag]} : {value}", line.number))
        return
    extra = 1 if depth and depth[-1] == "processes" and tag in _UNDER_PROCESS else 0
    indent = "    " * (1 + len(depth) + extra)
    name = _NAMES.get(tag, tag)
    opens = not value and f"</{tag}>" not in match.string[match.end() : match.end() + len(tag) + 4]
    rows.append(Line(f"{indent}{name} : {value}" if value else indent + name, line.number))
    if opens and len(depth) < 20:
        depth.append(tag)
