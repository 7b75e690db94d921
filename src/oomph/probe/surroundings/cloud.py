"""Which cloud's machine this is, and of which type: by DMI and by what cloud-init left, never by a network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from oomph.probe.surroundings.seen import ROOT, Seen, Untold, first_line, read

_DMI = "/sys/class/dmi/id"
#: What every virtual machine of Azure has as its chassis' asset tag (cloud-init's DataSourceAzure knows it so too).
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
#: EC2's product name is the instance type on Nitro ("p4d.24xlarge", "u-6tb1.metal").
_EC2_TYPE = re.compile(r"[a-z][a-z0-9-]{1,15}\.[a-z0-9-]{2,16}\Z")
_INSTANCE = "/run/cloud-init/instance-data.json"
_NAMES = {
    "aws": "AWS",
    "ec2": "AWS",
    "azure": "Azure",
    "gce": "Google Cloud",
    "gcp": "Google Cloud",
    "lambda": "Lambda",
}


def provider(root: Path = ROOT) -> Seen[str] | Untold:
    """Google Cloud, AWS, Azure, or the maker's name as DMI has it."""
    vendor = first_line(root, f"{_DMI}/sys_vendor")
    product = first_line(root, f"{_DMI}/product_name")
    said = f"{vendor} {product}".strip()
    if vendor == "Google" or product == "Google Compute Engine":
        return Seen("Google Cloud", f"{_DMI}/sys_vendor", said)
    if vendor == "Amazon EC2" or first_line(root, f"{_DMI}/bios_vendor") == "Amazon EC2":
        return Seen("AWS", f"{_DMI}/sys_vendor", said)
    if first_line(root, f"{_DMI}/chassis_asset_tag") == _AZURE_TAG:
        return Seen("Azure", f"{_DMI}/chassis_asset_tag", said)
    cloud = _instance(root).get("v1")
    name = cloud.get("cloud_name") or cloud.get("cloud-name") if isinstance(cloud, dict) else None
    if isinstance(name, str) and name.lower() in _NAMES:
        return Seen(_NAMES[name.lower()], _INSTANCE, f"cloud_name: {name}")
    if vendor:
        return Seen(vendor, f"{_DMI}/sys_vendor", said)
    return Untold(f"there is no {_DMI} here (a container or a small virtual machine may not show it)")


def machine_type(root: Path = ROOT) -> Seen[str] | Untold:
    """The cloud's name for the machine, where DMI (AWS) or cloud-init (AWS, Azure, OpenStack) tells it."""
    product = first_line(root, f"{_DMI}/product_name")
    if first_line(root, f"{_DMI}/sys_vendor") == "Amazon EC2" and _EC2_TYPE.match(product):
        return Seen(product, f"{_DMI}/product_name", product)
    source = _instance(root).get("ds")
    for path in (
        ("meta_data", "instance-type"),
        ("meta_data", "instance_type"),
        ("dynamic", "instance-identity", "document", "instanceType"),
        ("meta_data", "imds", "compute", "vmSize"),
        ("ec2_metadata", "instance-type"),
    ):
        found = _below(source, path)
        if isinstance(found, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,60}", found):
            return Seen(found, _INSTANCE, f"ds.{'.'.join(path)}: {found}")
    return Untold("no file of this machine names its type; `--ask-cloud` asks the cloud's metadata server")


def _instance(root: Path) -> dict[str, Any]:
    """What cloud-init wrote for everyone to read: without what it calls sensitive."""
    try:
        content = json.loads(read(root, _INSTANCE) or "{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _below(content: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        content = content.get(name) if isinstance(content, dict) else None
    return content
