"""What nvidia-smi, the CUDA runtime and PyTorch print where a driver, a card and a build do not go together.

The lines themselves are evidence (`Environment.errors`); versions that stand in them count as told.
"""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Told, TorchBuild
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

#: Fixed parts of the messages, as their writers print them.
_SAYINGS = (
    "Failed to initialize NVML",
    "NVIDIA-SMI has failed because it couldn't communicate",
    "No devices were found",
    "Unable to determine the device handle for",
    "GPU is lost",
    "CUDA driver version is insufficient for CUDA runtime version",
    "The NVIDIA driver on your system is too old",
    "no kernel image is available for execution on the device",
    "is not compatible with the current PyTorch installation",
    "The current PyTorch install supports CUDA capabilities",
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver on your system",
    "unsupported display driver / cuda driver combination",
    "forward compatibility was attempted on non supported HW",
    "invalid device ordinal",
    "CUDA-capable device(s) is/are busy or unavailable",
    "all CUDA-capable devices are busy or unavailable",
    "CUDA unknown error - this may be due to an incorrectly set up environment",
    "No CUDA GPUs are available",
    "no CUDA-capable device is detected",
    "CUDA driver is a stub library",
    "system not yet initialized",
    "was built for a different CUDA version",
    "cuDNN version incompatibility",
    "CUDNN_STATUS_VERSION_MISMATCH",
    "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
    "PyTorch was compiled  against",
    "uncorrectable ECC error encountered",
    "has fallen off the bus",
    "Duplicate GPU detected",
)
_NVML_LIBRARY = re.compile(r"NVML library version:\s{0,4}(\d{2,4}(?:\.\d{1,4}){1,3})")
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d{4,6})\)")
_CAPABILITY = re.compile(r"(\S[^\n]{1,80}?) with CUDA capability sm_(\d{1,2})(\d) is not compatible")
_SUPPORTS = re.compile(
    r"install supports CUDA capabilities ((?:(?:sm|compute)_\d{2,3}[a-z]?[ ,.]{0,3}){1,40})"
)
#: Tools that were asked and are not there, and what they would have told.
_ABSENT = re.compile(
    r"(?:^|[\s:'\"`])(nvidia-smi|ibv_devinfo|ibv_devices|ibstat|ip|ifconfig|dmesg)(?::\s{0,4}(?:command )?not found|"
    r"['\"`]? is not recognized)"
)
_TELLS = {
    "nvidia-smi": "cards",
    "ibv_devinfo": "rdma_devices",
    "ibv_devices": "rdma_devices",
    "ibstat": "rdma_devices",
    "ip": "interfaces",
    "ifconfig": "interfaces",
    "dmesg": "xids",
}
_DENIED = "dmesg: read kernel buffer failed"
_KIND = "messages of the driver and of CUDA"


def parse(part: Part, found: Found) -> None:
    """Errors, and the versions that they name."""
    for line in part.lines:
        text = line.text
        if len(text) > 4_000:
            continue
        if any(saying in text for saying in _SAYINGS):
            found.take(part.source, _KIND)
            found.add_error(part.quote(line))
            _figures(found, text, part.quote(line))
            if "No devices were found" in text:
                found.told.add("cards")
        absent = _ABSENT.search(text) if len(text) < 400 and " not " in text else None
        if absent is not None:
            found.take(part.source, _KIND)
            found.missing.setdefault(_TELLS[absent[1]], f"{absent[1]} is not there")
        elif _DENIED in text:
            found.take(part.source, _KIND)
            found.missing.setdefault("xids", "dmesg may not be read there")
        library = _NVML_LIBRARY.search(text) if "NVML library" in text else None
        if library is not None:
            found.take(part.source, _KIND)
            found.add("driver_libraries", library[1], part.quote(line))
            found.add_error(part.quote(line))


def _figures(found: Found, text: str, quote: Quote) -> None:
    if "Torch not compiled with CUDA enabled" in text:
        found.add_torch(TorchBuild(quote=quote, cuda=None))
    old = _TOO_OLD.search(text)
    if old is not None:
        version = int(old[1])
        found.tell("driver_cuda", f"{version // 1000}.{version % 1000 // 10}", quote)
    card = _CAPABILITY.search(text)
    if card is not None:
        name = card[1].rpartition(": ")[2].strip()
        found.capabilities.setdefault(name, Told((int(card[2]), int(card[3])), quote))
    supports = _SUPPORTS.search(text)
    if supports is not None:
        found.add_torch(
            TorchBuild(quote=quote, architectures=tuple(re.findall(r"(?:sm|compute)_\d+[a-z]?", supports[1])))
        )
