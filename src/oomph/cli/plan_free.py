"""`--free now`: what nvidia-smi says is free on this machine's GPUs."""

from __future__ import annotations

import shutil
import subprocess

from oomph.errors import UsageError
from oomph.units import MIB

_QUERY = ("--query-gpu=memory.free", "--format=csv,noheader,nounits")


def free_now() -> int:
    """The bytes that are free on the fullest GPU of this machine. Raises UsageError where there is none to ask."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise UsageError(
            "--free now asks nvidia-smi, which is not on this machine; give a size, like --free 31GiB"
        )
    try:
        done = subprocess.run(  # noqa: S603 - the program is looked up, its arguments are fixed
            [program, *_QUERY], check=False, capture_output=True, text=True, errors="replace", timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"--free now: nvidia-smi did not answer ({type(error).__name__}); give a size"
        ) from None
    sizes = [int(line) * MIB for line in done.stdout.split() if line.isascii() and line.isdigit()]
    if done.returncode != 0 or not sizes:
        raise UsageError("--free now: nvidia-smi shows no GPU; give a size, like --free 31GiB")
    return min(sizes)
