"""Names processes that take memory on this host's GPUs beside the job, when they appear.

The first rank of each host looks, every ten seconds, through the narrow interface to the machine (NVML or nvidia-smi).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oomph.evidence.run.model import Note
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.probe.base import Machine
    from oomph.probe.model import Gpu, Process
    from oomph.recording.where import Rank

EVERY_SECONDS = 10.0
#: A desktop's or a monitor's share is no neighbour worth a word.
LEAST_BYTES = 64 << 20


class Neighbours:
    """Looks at the GPUs of this host. `note` gets what is to be recorded, `say` what is to be said; `claim` tells
    whether nobody else of the run has said it."""

    def __init__(
        self,
        machine: Machine,
        ours: Sequence[int],
        note: Callable[[Note], None],
        say: Callable[[str], None],
        claim: Callable[[str], bool],
    ) -> None:
        self._machine = machine
        self._ours = tuple(ours)
        self._note = note
        self._say = say
        self._claim = claim
        self._known: set[tuple[str, int]] = set()
        self._looks = 0

    def look(self) -> None:
        """One look at all GPUs."""
        self._looks += 1
        for gpu in self._machine.gpus(self._ours):
            for process in gpu.processes:
                key = (gpu.uuid or str(gpu.index), process.pid)
                if process.ours or key in self._known:
                    continue
                if process.used_bytes is not None and process.used_bytes < LEAST_BYTES:
                    continue  # it is told when it grows
                self._known.add(key)
                self._tell(gpu, process)

    def _tell(self, gpu: Gpu, process: Process) -> None:
        there = self._looks == 1
        name = f" ({process.name})" if process.name else ""
        used = "an unknown amount" if process.used_bytes is None else format_bytes(process.used_bytes)
        when = "was there when the recording began" if there else "appeared"
        text = f"process {process.pid}{name}, which is not of this job, {when} on GPU {gpu.index} with {used}"
        numbers = {} if process.used_bytes is None else {"used_bytes": process.used_bytes}
        self._note(Note("neighbour", text, time.time(), time.monotonic(), about=process.pid, numbers=numbers))
        if not there and self._claim(f"neighbour-{socket.gethostname()}-{gpu.index}-{process.pid}"):
            self._say(text)


def job_processes(rank: Rank) -> tuple[int, ...]:
    """Processes whose children are the job: the launcher of several ranks, or this process alone."""
    return (os.getpid(),) if rank.world_size == 1 else (os.getpid(), os.getppid())
