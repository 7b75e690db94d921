"""`nvidia-smi -L`, and the lines "GPU 0: NVIDIA A100-SXM4-80GB" of PyTorch's environment report."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Card, MigDevice
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_GPU = re.compile(r"\s{0,8}GPU (\d{1,3}): (\S[^\n()]{1,80}?)\s*(?:\(UUID: (GPU-[0-9A-Za-z-]{4,60})\))?\s*$")
_MIG = re.compile(
    r"\s{0,12}MIG (\S{2,20})\s{1,12}Device\s{1,4}(\d{1,3}):\s{0,4}(?:\(UUID: (MIG-[0-9A-Za-z/-]{4,80})\))?"
)
_NAMES = re.compile(r"NVIDIA|Tesla|GeForce|Quadro|TITAN|RTX|GTX|GRID|Graphics Device|[AVHBLTP]\d{1,3}\b")


def parse(part: Part, found: Found) -> None:
    """Cards by index, name and UUID; MIG devices with their profile."""
    current: tuple[Quote, int, str, str] | None = None
    mig: list[MigDevice] = []
    for line in part.lines:
        text = line.text
        if len(text) > 300 or ("GPU " not in text and "MIG " not in text):
            continue
        gpu = _GPU.match(text)
        if gpu is not None and _NAMES.search(gpu[2]) is not None:
            _finish(part, found, current, mig)
            current, mig = (part.quote(line), int(gpu[1]), gpu[2], gpu[3] or ""), []
            continue
        device = _MIG.match(text)
        if device is not None and current is not None:
            mig.append(MigDevice(profile=device[1], uuid=device[3] or ""))
    _finish(part, found, current, mig)


def _finish(
    part: Part, found: Found, current: tuple[Quote, int, str, str] | None, mig: list[MigDevice]
) -> None:
    if current is None:
        return
    quote, index, name, uuid = current
    found.take(part.source, "a list of GPUs")
    found.add_card(
        Card(
            quote=quote,
            index=index,
            name=name,
            uuid=uuid,
            mig=True if mig else None,
            mig_devices=tuple(mig),
        )
    )
