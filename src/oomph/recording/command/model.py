"""What is asked of `oomph record -- CMD`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
#: Of each of the command's streams so much is kept: half from its beginning, half from its end.
KEEP_BYTES = 2048 * MIB


@dataclass(frozen=True)
class Asked:
    """The command and how it is recorded. `run_dir` None: a new folder in `oomph-runs/`. `every`: seconds between two
    looks at the GPUs, 0 for none. `auto`: scripts record themselves without a change; `phases`: from their first
    forward on, not only when they fail."""

    command: tuple[str, ...]
    run_dir: Path | None = None
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    every: float = 1.0
    keep_bytes: int = KEEP_BYTES
    auto: bool = True
    phases: bool = False


@dataclass(frozen=True)
class Ended:
    """How it went. `exit_code` is what the shell gets: the command's, or 128 + the signal that ended it.
    `directory` None: nothing could be recorded anywhere. `lost_end`: the end of the output that could not be kept.
    `speaks`: the run is explained by this process, not by that of another rank."""

    exit_code: int
    signal: int | None
    seconds: float
    directory: Path | None
    lost_end: bytes = b""
    speaks: bool = True
