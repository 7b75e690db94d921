"""The first records of a run, and of a rank."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from oomph.evidence.run.model import RUN, VERSION, Header, Run
from oomph.recording.writer import create_once

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording


def write_run(recording: Recording, name: str, tags: Mapping[str, str]) -> Run:
    """The run, written if no other rank has."""
    directory = recording.directory
    run = Run(
        version=VERSION,
        id=directory.name if directory is not None else "",
        started=time.time(),
        directory=str(directory or ""),
        host=socket.gethostname(),
        world_size=recording.rank.world_size,
        oomph=_version(),
        name=name,
        tags=dict(tags),
    )
    if directory is not None:
        try:
            create_once(directory / RUN, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
        except OSError as error:
            recording.troubles.complain(f"{directory / RUN}: {error.strerror or error}")
    return run


def make_header(recording: Recording, history: int) -> Header:
    """The header of this rank; PyTorch's memory history begins with it."""
    device, rank = recording.device, recording.rank
    limits = list(getattr(device, "limits", ()))
    why = device.record_history(history) if history else ""
    if why:
        limits.append(f"no history in snapshots: {why}")
    return Header(
        version=VERSION,
        rank=rank.rank,
        world_size=rank.world_size,
        local_rank=rank.local_rank,
        pid=os.getpid(),
        host=socket.gethostname(),
        time=time.time(),
        clock=time.monotonic(),
        attempt=max(rank.attempt, _attempts(recording.writer.path)),
        device=device.name,
        device_index=device.index,
        capacity_bytes=device.whole().total_bytes,
        limits=tuple(limits),
    )


def _attempts(path: Path | None) -> int:
    """Headers that are in the file already: how often this rank began before."""
    try:
        if path is None or path.stat().st_size > 256 << 20:
            return 0
        with path.open("rb") as file:
            return sum(line.startswith(b'{"type":"header"') for line in file)
    except OSError:
        return 0


def _version() -> str:
    from oomph import __version__

    return __version__
