"""Runs `oomph bisect` as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
#: Without a launcher's, a recording's, or another search's variables.
DROPPED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "OOMPH_RUN_DIR",
    "OOMPH_CPU_CAPACITY",
    "OOMPH_AUTO",
    "OOMPH_TRIAL",
)


def environment(**more: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in DROPPED and "ALLOC_CONF" not in name
    }
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def words(*options: str, script: str = "job.py", command: tuple[str, ...] = ()) -> list[str]:
    program = command or (sys.executable,)
    before, _, after = " ".join(options).partition(" -- ")
    return [
        sys.executable, "-m", "oomph", "bisect", "--format", "json", *before.split(), "--", *program,
        str(SCRIPTS / script), *after.split(),
    ]  # fmt: skip


def bisect(folder: Path, *options: str, script: str = "job.py", command=(), code: int = 0, **variables: str):
    """The answer, as a table, and what was said on stderr. `options`: of oomph, then --, then of the script."""
    done = subprocess.run(
        words(*options, script=script, command=command),
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(**variables),
        timeout=300,
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout else {}, done.stderr


def settings(answer, *names: str):
    """The settings of its trials, in their order."""
    return [tuple(trial["setting"][name] for name in names) for trial in answer["trials"]]


def outcomes(answer):
    return [trial["outcome"] for trial in answer["trials"]]
