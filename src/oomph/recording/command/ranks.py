"""Which global rank a local rank of this host is, while the command runs."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from oomph.evidence.run.model import RANKS, Header

_NODES = re.compile(
    r"--nnodes(?:=|\Z)|--num[-_]nodes|--num_machines|--node[-_]rank|--machine_rank|--hostfile|-H\Z"
)
_LOOK_AGAIN_SECONDS = 1.0
_HEADER: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)


class LocalRanks:
    """Answers from the records that the ranks of this host have begun to write; on a single node a local rank is the
    global one. None where neither is known: then lines stay with the whole output."""

    def __init__(self, directory: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = directory / RANKS
        self._single = _single_node(command, environment)
        self._known: dict[int, int] = {}
        self._looked = 0.0

    def __call__(self, local: int) -> int | None:
        """The global rank of a local one."""
        if local in self._known:
            return self._known[local]
        if self._single:
            return local
        if time.monotonic() - self._looked >= _LOOK_AGAIN_SECONDS:
            self._look()
            self._looked = time.monotonic()
        return self._known.get(local)

    def _look(self) -> None:
        host = socket.gethostname()
        try:
            for path in self._folder.glob("rank-*.jsonl"):
                with path.open("rb") as file:
                    line = file.readline(1 << 16)
                try:
                    header = _HEADER.decode(line)
                except (ValueError, RecursionError):
                    continue
                if header.host == host:
                    self._known[header.local_rank] = header.rank
        except OSError:
            return


def _single_node(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether nothing says that the job has more than one node."""
    for name in ("SLURM_NNODES", "PET_NNODES", "NNODES"):
        if environment.get(name, "1").strip() not in ("", "1", "1:1"):
            return False
    for index, word in enumerate(command):
        if _NODES.match(word) is None:
            continue
        value = word.partition("=")[2] or (command[index + 1] if index + 1 < len(command) else "")
        if value not in ("1", "1:1", "0"):
            return False
    return True
