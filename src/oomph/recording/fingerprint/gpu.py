"""The GPUs that this process sees: from an initialised CUDA, else from the driver's files."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

from oomph.errors import OomphError
from oomph.recording.fingerprint.found import Found

_FIELD = re.compile(r"^(Model|GPU UUID):\s*(.+?)\s*$", re.MULTILINE)


def gpu(found: Found, root: Path, device_name: str = "", capacity_bytes: int | None = None) -> None:
    """`gpu.name`, `gpu.count`, `gpu.capacity_bytes`, and `gpu.known_as`, oomph's own name for it. `device_name` and
    `capacity_bytes` are the recorder's device's."""
    if device_name == "CPU":
        found.miss("gpu.name", "the CPU was recorded, counted as if it were a card")
        return
    names, capacity = _of_cuda()
    names = names or _of_driver(root)
    if not names and not device_name:
        found.miss("gpu.name", "no NVIDIA GPU is known to this process")
        return
    found.put("gpu.name", device_name or ", ".join(dict.fromkeys(names)))
    found.put("gpu.count", len(names) or None)
    found.put("gpu.capacity_bytes", capacity_bytes or capacity)
    with suppress(OomphError):
        from oomph.hardware import names as known

        found.put("gpu.known_as", known.gpu(device_name or names[0]).short_name)


def _of_cuda() -> tuple[list[str], int | None]:
    """Names and the size of the current device; nothing where the script has not used CUDA: asking would."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return [], None
    listed = [cuda.get_device_properties(index) for index in range(cuda.device_count())]
    current = listed[cuda.current_device()] if listed else None
    return [str(each.name) for each in listed], None if current is None else int(current.total_memory)


def _of_driver(root: Path) -> list[str]:
    """All GPUs of the host, whatever CUDA_VISIBLE_DEVICES says."""
    result = []
    with suppress(OSError):
        for folder in sorted((root / "proc/driver/nvidia/gpus").iterdir()):
            with suppress(OSError):
                text = (folder / "information").read_text(encoding="utf-8", errors="replace")[:4096]
                result += [value for field, value in _FIELD.findall(text) if field == "Model"]
    return result
