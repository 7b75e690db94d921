"""The NVIDIA driver as the kernel and the linker's cache tell it, without asking NVML."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Seen, Untold, first_line

_VERSION = re.compile(r"(?<![\d.])\d{3}\.\d{1,3}(?:\.\d{1,3})?(?![\d.])")
_CACHED = re.compile(r"^\s*(lib(?:cuda|nvidia-ml)\.so\.1) \(([^)]*)\) => (\S+)", re.MULTILINE)
_TIMEOUT_S = 10.0

#: Where the module says its version. The second's text names the module: "NVRM version: NVIDIA UNIX x86_64 Kernel
#: Module  535.104.05  Sat Aug 19 ...", or "... UNIX Open Kernel Module for x86_64  550.54.14 ...".
_PLACES = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")


def kernel_drivers(root: Path = ROOT) -> tuple[Seen[str], ...] | Untold:
    """The version of the loaded kernel module, from each place that tells it."""
    found = []
    for place in _PLACES:
        line = first_line(root, place)
        match = _VERSION.search(line)
        if match:
            found.append(Seen(match[0], place, line))
    if found:
        return tuple(found)
    return Untold(
        f"there is no {_PLACES[1]}: the NVIDIA kernel module is not loaded, or is not shown here (WSL2 has none)"
    )


def driver_libraries(listing: str | None = None) -> tuple[Seen[str], ...]:
    """The versions of the driver's own user-space libraries (libcuda, NVML), as the linker finds them. Those of a
    forward-compatibility package or of the toolkit's stubs are other than the driver's by design, and left out.
    `listing` is what `ldconfig -p` printed; None asks it."""
    found: dict[str, Seen[str]] = {}
    for match in _CACHED.finditer(_cache() if listing is None else listing):
        name, kind, path = match.groups()
        if name in found or "compat" in path or "stubs" in path or "64" not in kind:
            continue
        try:
            real = Path(path).resolve().name
        except (OSError, RuntimeError):
            continue
        version = re.search(r"\.so\.(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\Z", real)
        if version:
            found[name] = Seen(version[1], path, f"{name} => {real}")
    return tuple(found.values())


def _cache() -> str:
    program = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - the program is looked up, its argument is fixed; -p only prints
            [program, "-p"], capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
