"""Where a run goes, such that all ranks of one launch agree without talking to each other.

1. `OOMPH_RUN_DIR` (`oomph record -- CMD` sets it), 2. the argument `run_dir`, 3. a new folder
`oomph-runs/<UTC time>-<name>-<six characters>` in the working directory.

For the third, ranks of one launch find each other by a key that they have in common and no other launch has: what
the launcher says of itself (below, the surest first). Whoever comes first writes the folder's name into
`oomph-runs/launches/<key>` (O_EXCL); all others read it there. An elastic restart has the same key, so its
records are appended as a further attempt.

Keys that a later launch may have again (a rendezvous id by hand, a port) are believed for ten minutes: whoever
comes later, and is no restart, begins a new run. `OOMPH_RUN_DIR` settles it where that is not enough.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from oomph.evidence.run.model import RANKS, Header, rank_name
from oomph.recording.writer import create_once

RUNS = "oomph-runs"
LAUNCHES = "launches"
#: How long ranks of one launch may take to come, where the key alone does not tell launches apart.
JOIN_SECONDS = 600.0
#: How long a rank waits for the name in a file that another rank has just made.
_WAIT_SECONDS = 5.0


@dataclass(frozen=True)
class Rank:
    """Which process of the job this is. `attempt` counts the launcher's restarts."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    attempt: int = 0


@dataclass(frozen=True)
class Key:
    """What the ranks of a launch have in common. `unique`: no later launch has it."""

    text: str
    unique: bool


def rank_of(environment: Mapping[str, str]) -> Rank:
    """What torchrun, Slurm, Open MPI or another launcher says in the environment; an initialised process group that
    says otherwise is right (`torch.distributed`, only asked if it is imported)."""
    rank = _first(environment, "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world = _first(environment, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local = _first(environment, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
    on_host = _first(environment, "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    if rank is None and (_first(environment, "SLURM_NTASKS") or 1) > 1 and "SLURM_STEP_ID" in environment:
        rank, world = _first(environment, "SLURM_PROCID"), _first(environment, "SLURM_NTASKS")
        local = _first(environment, "SLURM_LOCALID")
    group = _process_group()
    if group is not None:
        rank, world = group
    rank, world = rank or 0, max(world or 1, 1)
    return Rank(
        rank=rank,
        world_size=max(world, rank + 1),
        local_rank=local if local is not None else 0,
        local_world_size=on_host or 1,
        attempt=_first(environment, "TORCHELASTIC_RESTART_COUNT") or 0,
    )


def _process_group() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:  # noqa: BLE001 - a half-made group: the environment is asked instead
        return None


def _first(environment: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = environment.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None


def launch_key(environment: Mapping[str, str], rank: Rank) -> Key | None:
    """What this launch is called; None for a process by itself."""
    if rank.world_size == 1:
        return None
    elastic = environment.get("TORCHELASTIC_RUN_ID", "")
    if elastic and rank.local_world_size == rank.world_size:
        folder = _agent_folder(environment.get("TORCHELASTIC_ERROR_FILE", ""))
        if folder:
            return Key(f"agent {folder}", unique=True)  # a folder that the agent made for itself (mkdtemp)
        parent = _parent()
        if parent:
            return Key(f"agent {parent}", unique=True)
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", elastic):
        return Key(f"elastic {elastic}", unique=True)  # torchrun --standalone makes one up
    job = environment.get("SLURM_JOB_ID", "")
    if job:
        restart = environment.get("SLURM_RESTART_COUNT", "0")
        step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
        return Key(f"slurm {job} {step} {restart} {elastic}", unique=bool(step))
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"):
        if environment.get(name):
            return Key(f"mpi {environment[name]}", unique=False)
    if elastic and elastic != "none":
        return Key(f"elastic {elastic}", unique=False)
    address = environment.get("MASTER_ADDR", "")
    # torchrun's --rdzv-backend c10d takes a free port anew after each restart: by that, a restart is another run.
    return Key(f"master {address} {environment.get('MASTER_PORT', '')}", unique=False)


def _agent_folder(error_file: str) -> str:
    """.../<run id>_<random>/attempt_0/3/error.json -> .../<run id>_<random>"""
    parts = Path(error_file).parts
    for position, part in enumerate(parts):
        if position and re.fullmatch(r"attempt_\d+", part):
            return str(Path(*parts[:position]))
    return ""


def _parent() -> str:
    """The process that started this one, by what no later process has: boot, number and start time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        parent = os.getppid()
        stat = Path(f"/proc/{parent}/stat").read_text()
        return f"{boot} {parent} {stat.rsplit(')', 1)[1].split()[19]}"
    except (OSError, IndexError, ValueError):
        return ""


def run_directory(
    environment: Mapping[str, str],
    rank: Rank,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    name: str = "",
    runs: Path | None = None,
    now: float | None = None,
    wait: float = _WAIT_SECONDS,
) -> Path:
    """The folder of this run; it is made by whoever writes into it. `runs` is where new ones go (oomph-runs/ in the
    working directory). Raises OSError where nothing can be agreed on."""
    given = environment.get("OOMPH_RUN_DIR", "").strip() or (
        os.fspath(run_dir) if run_dir is not None else ""
    )
    if given:
        if re.match(r"[a-z0-9]+://", given):
            raise OSError(f"{given} is no folder of this machine; copy the run there when it is over")
        return Path(given)
    runs = Path.cwd() / RUNS if runs is None else runs
    key = launch_key(environment, rank)
    now = time.time() if now is None else now
    if key is None:
        return runs / new_name(name, now)
    return runs / _agreed(runs / LAUNCHES, key, rank, name, now, wait)


def not_taken(directory: Path, rank: Rank) -> Path:
    """The directory, or one beside it where another process that lives records as the same rank (two jobs of one
    `oomph record -- CMD`, a helper of the training): two writers in one file would tell one story of two."""
    path = directory / RANKS / f"{rank_name(rank.rank)}.jsonl"
    header = None
    try:
        with path.open("rb") as file:
            for line in file:
                if line.startswith(b'{"type":"header"'):
                    header = line
                elif line.startswith(b'{"type":"end"'):
                    header = None
        found = msgspec.json.decode(header, type=Header) if header is not None else None
    except (OSError, msgspec.DecodeError):
        return directory
    if (
        found is None
        or found.pid == os.getpid()
        or found.host != socket.gethostname()
        or not _lives(found.pid)
    ):
        return directory
    return directory.with_name(f"{directory.name}-{os.getpid()}")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def new_name(name: str, now: float, salt: str | None = None) -> str:
    """<UTC time>-<name>-<six characters>."""
    moment = datetime.fromtimestamp(max(0.0, min(now, 32503680000.0)), timezone.utc)
    short = hashlib.sha256((salt or uuid.uuid4().hex).encode()).hexdigest()[:6]
    return f"{moment:%Y%m%d-%H%M%S}-{plain_name(name)}-{short}"


def plain_name(name: str) -> str:
    """A name that every file system takes; the script's where none was given."""
    name = name or Path(sys.argv[0] if sys.argv else "").stem
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:40] or "run"


def _agreed(folder: Path, key: Key, rank: Rank, name: str, now: float, wait: float) -> str:
    for turn in range(1, 1_000):
        salt = f"{key.text} {turn}"
        path = folder / hashlib.sha256(salt.encode()).hexdigest()[:24]
        # The salt alone would let a rank that cannot read the file still guess the end of the name.
        mine = new_name(name, now, salt if key.unique else None)
        if create_once(path, f"{mine}\n".encode()):
            return mine
        if key.unique or rank.attempt > 0 or now - path.stat().st_mtime < JOIN_SECONDS:
            return _read_name(path, wait)
    raise OSError(f"{folder} has a thousand launches called {key.text!r}")


def _read_name(path: Path, wait: float) -> str:
    until = time.monotonic() + wait
    while True:
        text = path.read_text("utf-8")
        if text.endswith("\n") and re.fullmatch(r"[\w.-]{1,120}\n", text, re.ASCII) and text[0] != ".":
            return text.strip()
        if time.monotonic() > until:
            raise OSError(f"{path} has no name of a run in it")
        time.sleep(0.02)
