"""GPUs by nvidia-smi, where nvidia-ml-py is not installed: two calls a reading, some tenths of a second each.

The columns are asked for by name, so their order is known; sizes are MiB (`nounits`). What is not a number ("[N/A]",
"[Insufficient Permissions]") is None. Programs that draw are not in its list of compute processes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from oomph.probe.host import host
from oomph.probe.machine.listing import listed, unread
from oomph.probe.machine.nvml import Unavailable
from oomph.probe.model import Gpu, Host
from oomph.units import MIB

_GPU = ("index", "uuid", "memory.total", "memory.used", "memory.free", "utilization.gpu", "name")
_APPS = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")
_TIMEOUT_S = 10.0
_LONGEST = 1 << 20


class SmiMachine:
    """Raises `Unavailable` where nvidia-smi lists no GPU."""

    def __init__(self, program: str = "nvidia-smi", timeout_s: float = _TIMEOUT_S) -> None:
        self._program = program
        self._timeout_s = timeout_s
        self._failed = ""
        if not self.gpus():
            raise Unavailable(f"nvidia-smi lists no GPU{f': {self._failed}' if self._failed else ''}")

    def source(self) -> str:
        return "nvidia-smi"

    def why(self) -> str:
        return ""

    def host(self, pids: Sequence[int] = ()) -> Host:
        return host(pids)

    def gpus(self, ours: Sequence[int] = ()) -> tuple[Gpu, ...]:
        cards = [row for row in self._rows("--query-gpu", _GPU) if row[0].isdigit()]
        if not cards:
            return ()
        apps: dict[str, list[tuple[int, int | None, str]]] = {}
        rows = self._rows("--query-compute-apps", _APPS)
        failed = self._failed
        for uuid, pid, size, name in rows:
            if pid.isdigit():
                apps.setdefault(uuid, []).append((int(pid), _mib(size), name.rpartition("/")[2]))
        return tuple(self._gpu(row, apps, ours, failed) for row in cards)

    def _gpu(
        self,
        row: list[str],
        apps: dict[str, list[tuple[int, int | None, str]]],
        ours: Sequence[int],
        failed: str,
    ) -> Gpu:
        index, uuid, total, used, free, utilization, name = row
        found = listed(apps.get(uuid, ()), ours)
        used_bytes = _mib(used)
        return Gpu(
            index=int(index),
            uuid=uuid,
            name=name,
            capacity_bytes=_mib(total),
            used_bytes=used_bytes,
            free_bytes=_mib(free),
            utilization=int(utilization) if utilization.isdigit() else None,
            processes=found,
            missing=failed or unread(found, used_bytes),
        )

    def _rows(self, query: str, columns: Sequence[str]) -> list[list[str]]:
        """The cells of each line; the last column, a name, keeps its commas. [] where the program fails, which
        `_failed` then says."""
        self._failed = ""
        try:
            done = subprocess.run(  # noqa: S603 - nvidia-smi of the path, or what a test gives
                [self._program, f"{query}={','.join(columns)}", "--format=csv,noheader,nounits"],
                capture_output=True,
                timeout=self._timeout_s,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._failed = f"nvidia-smi did not answer within {self._timeout_s:g} s"
            return []
        except OSError as error:
            self._failed = f"nvidia-smi cannot be started: {error.strerror or error}"
            return []
        text = done.stdout[:_LONGEST].decode("utf-8", "replace")
        if done.returncode:
            first = (text + done.stderr[:_LONGEST].decode("utf-8", "replace")).strip().splitlines()
            self._failed = f"nvidia-smi ended with {done.returncode}{f': {first[0][:200]}' if first else ''}"
        rows = [[cell.strip() for cell in line.split(",", len(columns) - 1)] for line in text.splitlines()]
        return [row for row in rows if len(row) == len(columns)]


def _mib(text: str) -> int | None:
    return int(text) * MIB if text.isdigit() else None
