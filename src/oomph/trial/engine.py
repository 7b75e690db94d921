"""The engine interface: whoever runs commands somewhere. Nothing else of oomph knows which engine it is.

A `Task` is one command with its limits. An engine starts it in a process group (a Slurm job, a Ray task) of its own,
enforces the limits, and when it is cancelled or over leaves no process of it behind. What a command's end means for
memory is not the engine's affair: trial.outcome reads that from the task's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from oomph.trial.model import Limits


@dataclass(frozen=True)
class Task:
    """A command. `environment` is added to the engine's own. `folder` exists, is written to by the engine (stdout,
    stderr: `out.txt`, `err.txt`), and is seen by the command under the same path (a shared file system, for Slurm and
    Ray on several nodes). `gpus` is how many GPUs it needs (0: none, or unknown to the engine)."""

    name: str
    command: tuple[str, ...]
    folder: Path
    working_directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    gpus: int = 0


@dataclass(frozen=True)
class Finished:
    """How a task ended, as its engine saw it. `exit_code` None: nobody saw one. `stopped` says which limit ended it:
    "seconds", "memory", "disk", "cancelled", or "lost" (the engine lost the node or the worker); "" for none."""

    task: Task
    exit_code: int | None
    stopped: str = ""
    why: str = ""
    seconds: float = 0.0


class Engine(Protocol):
    """`slots`: how many tasks can run at the same time. No method but `start` blocks for long."""

    name: str

    @property
    def slots(self) -> int:
        """How many tasks it runs side by side."""

    def start(self, task: Task) -> None:
        """Begins a task (it may wait in a queue). Raises OomphError with a sentence where it cannot be begun."""

    def finished(self, timeout: float) -> Sequence[Finished]:
        """Tasks that have ended since the last call; waits at most `timeout` seconds for one."""

    def cancel(self, task: Task) -> None:
        """Ends a task and everything that it started; it is `finished` as "cancelled" afterwards."""

    def close(self) -> None:
        """Ends what still runs, and gives back what the engine holds. May be called twice."""
