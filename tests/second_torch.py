"""`python -m tests.second_torch`: the tests of traces that need nothing but PyTorch, with another PyTorch than the main
environment's: the newest that pip gives, which on Linux is a CUDA build.

Needs about 8 GB of disk and a network. A machine that has not enough of them is no defect of the code: it is said, and
the exit code is 0. Otherwise it is that of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-second"
PYTHON = FOLDER / "bin" / "python"
#: The wheel with the libraries of CUDA that it asks for, and room to unpack them.
_DISK_BYTES = 12 << 30
_INSTALL_SECONDS, _TEST_SECONDS = 900, 900
_PACKAGES = ("torch>=2.14", "pytest>=8.2", "hypothesis>=6.100")
TESTS = ("tests/tracing/recorder", "tests/tracing/device", "tests/tracing/frontend", "tests/tracing/kernels")


def main() -> int:
    """Installs what is missing, runs the tests, prints one line, and returns the exit code."""
    began = time.monotonic()
    problem = None if _ready() else _install()
    if problem is not None:
        sys.stderr.write(f"SECOND TORCH NOT TESTED: {problem}\n")
        return 0
    installed = time.monotonic()
    command = [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    try:
        code = subprocess.run(
            command, check=False, cwd=ROOT, env=environment, timeout=_TEST_SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        code = 124
    version = _run([str(PYTHON), "-c", "import torch; print(torch.__version__)"], 300)[1].strip()
    sys.stdout.write(
        f"second torch {version}: {'passed' if code == 0 else f'failed ({code})'}; installed in "
        f"{installed - began:.0f} s, tested in {time.monotonic() - installed:.0f} s\n"
    )
    return code


def _ready() -> bool:
    return (
        PYTHON.exists() and _run([str(PYTHON), "-c", "import oomph, pytest, hypothesis, torch"], 300)[0] == 0
    )


def _install() -> str | None:
    """None, or why it could not be done. What was begun is taken away then."""
    if shutil.disk_usage(ROOT).free < _DISK_BYTES:
        return f"less than {_DISK_BYTES >> 30} GiB of disk is free"
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(FOLDER)],
        [str(PYTHON), "-m", "pip", "install", "-q", "--no-cache-dir", "-e", str(ROOT), *_PACKAGES],
    ):
        code, text = _run(command, _INSTALL_SECONDS)
        if code != 0:
            shutil.rmtree(FOLDER, ignore_errors=True)
            last = (text.strip().splitlines() or ["no message"])[-1]
            return f"it could not be installed ({last[:300]})"
    return None


def _run(command: list[str], seconds: int) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 124, f"more than {seconds} s"
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
