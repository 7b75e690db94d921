"""The machine: what the firmware and cloud-init's file say of its type. The network is never asked."""

from __future__ import annotations

import json
import os
import platform
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from oomph.errors import OomphError
from oomph.recording.fingerprint.found import Found

_DMI = ("sys_vendor", "product_name", "board_vendor", "chassis_asset_tag")
_MEMORY = re.compile(r"^MemTotal:\s+([0-9]+) kB", re.MULTILINE)
#: Bytes of a file of cloud-init at most.
_LARGEST = 1 << 20
#: Azure's machines have this tag (documented by Microsoft for telling them from other Hyper-V machines).
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"


def machine(found: Found, root: Path) -> None:
    """`machine.type`, `machine.provider`, `machine.cpus`, `machine.ram_bytes`, `machine.host`, `machine.system`."""
    found.put("machine.host", platform.node())
    found.put("machine.system", f"{platform.system()} {platform.machine()}")
    found.put("machine.cpus", os.cpu_count())
    with suppress(OSError):
        match = _MEMORY.search((root / "proc/meminfo").read_text(encoding="ascii", errors="replace"))
        if match:
            found.put("machine.ram_bytes", int(match[1]) * 1024)
    dmi = {name: _line(root / "sys/class/dmi/id" / name) for name in _DMI}
    provider = _provider(dmi)
    if provider:
        found.put("machine.provider", provider)
    name = _machine_type(dmi, provider, root)
    if name:
        found.put("machine.type", name)
        _known(found, name)
    elif provider:
        found.miss("machine.type", f"{provider} tells it over the network only, which is not asked")
    elif any(dmi.values()):
        found.put("machine.model", " ".join(filter(None, (dmi["sys_vendor"], dmi["product_name"]))))
        found.miss("machine.type", "not a cloud's machine by its firmware")
    else:
        found.miss("machine.type", "the firmware's files cannot be read here")


def _provider(dmi: dict[str, str]) -> str:
    vendor, product = dmi["sys_vendor"].lower(), dmi["product_name"].lower()
    if "amazon" in vendor:
        return "AWS"
    if "google" in vendor or "google compute" in product:
        return "Google Cloud"
    if dmi["chassis_asset_tag"] == _AZURE_TAG:
        return "Azure"
    if "oraclecloud" in dmi["chassis_asset_tag"].lower():
        return "Oracle"
    return ""


def _machine_type(dmi: dict[str, str], provider: str, root: Path) -> str:
    """SageMaker's variable, EC2's firmware (the product's name is the type), or cloud-init's file."""
    named = os.environ.get("SM_CURRENT_INSTANCE_TYPE", "")
    if named:
        return named
    if provider == "AWS" and "." in dmi["product_name"]:
        return dmi["product_name"]
    return _of_cloud_init(root)


def _of_cloud_init(root: Path) -> str:
    with suppress(OSError, ValueError, RecursionError):
        path = root / "run/cloud-init/instance-data.json"
        if path.stat().st_size <= _LARGEST:
            return _type_in(json.loads(path.read_text(encoding="utf-8")))
    return ""


def _type_in(data: Any) -> str:
    meta = _table(_table(_table(data).get("ds")).get("meta_data"))
    compute = _table(_table(meta.get("imds")).get("compute"))
    for value in (meta.get("instance-type"), meta.get("instance_type"), compute.get("vmSize")):
        if isinstance(value, str) and value:
            return value
    return ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _known(found: Found, name: str) -> None:
    with suppress(OomphError):
        from oomph.hardware.names import machine_type

        known = machine_type(name)
        found.put("machine.known_as", f"{known.name} ({known.count} x {known.gpu})")


def _line(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip()
    return ""
