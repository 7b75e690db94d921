"""An environment apart for the programs, so that none of their requirements meets oomph's."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ADAPTERS = (
    "accelerate_peer",
    "deepspeed_peer",
    "llm_analysis_peer",
    "preflight_peer",
    "kitsune_peer",
    "vramcalc_peer",
)


def adapter(name: str) -> Any:
    """The module of an adapter."""
    return importlib.import_module(f"benchmarks.peer.{name}")


def python(folder: Path) -> Path:
    """The interpreter of the environment in `folder`."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Makes the environment where it is not there, and installs what the adapters need. Returns for each adapter that
    could not be installed the end of what pip said.

    The environment sees the packages of this interpreter (PyTorch and transformers are large), and its own come first.
    """
    if not python(folder).exists():
        venv.create(folder, with_pip=True)
        paths = subprocess.run(
            [str(python(folder)), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        )
        (Path(paths.stdout.strip()) / "host.pth").write_text(sysconfig.get_path("purelib") + "\n")
        _pip(folder, ["torch", "transformers"])
    failed = {}
    for name in names:
        asked = adapter(name)
        for arguments in (getattr(asked, "NEEDS", ()), asked.INSTALL):
            wrong = _pip(folder, arguments) if arguments else None
            if wrong is not None:
                failed[name] = wrong
                break
    return failed


def _pip(folder: Path, arguments: Iterable[str]) -> str | None:
    """Runs pip install; what it said last where it failed."""
    done = subprocess.run(
        [
            *(str(python(folder)), "-m", "pip", "install", "-q", "--disable-pip-version-check"),
            *arguments,
        ],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "DS_BUILD_OPS": "0"},
    )
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def ask(folder: Path, name: str, points: Path, out: Path) -> str | None:
    """Runs the adapter over the points; the last line of its error where it failed."""
    done = subprocess.run(
        [str(python(folder)), "-m", "benchmarks.peer.worker", name, str(points), str(out)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DS_ACCELERATOR": "cpu", "TRANSFORMERS_OFFLINE": "1"},
    )
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["it failed"])[-1]


if __name__ == "__main__":
    sys.exit("run benchmarks/peers.py")
