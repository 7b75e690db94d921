"""Starts scripts as users do, and reads what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def environment(**more: str) -> dict[str, str]:
    """This process's, without a launcher's, and with few threads."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OOMPH_RUN_DIR", "OOMPH_CPU_CAPACITY")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def torchrun(cwd: Path, ranks: int, script: str, *arguments: str, options=(), **variables: str):
    """`torchrun --standalone` of a script in scripts/."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        *options,
        str(SCRIPTS / script),
        *arguments,
    ]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**variables),
        timeout=300,
    )


def the_run(cwd: Path) -> Path:
    """The one run directory below a working directory."""
    (found,) = [path for path in (cwd / "oomph-runs").iterdir() if (path / "run.json").is_file()]
    return found
