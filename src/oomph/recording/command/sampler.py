"""Looks at the GPUs and the main memory of this host while a command runs, and writes down what changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from oomph.evidence.run.model import GPUS, GpuSample
from oomph.probe.base import Machine
from oomph.probe.model import Gpu, Host
from oomph.units import format_bytes

#: A change of a GPU's use is written from this share of its capacity on, one of main memory likewise.
SHARE = 0.005
#: A new highest value is written from this many bytes above the last one on: peaks are what counts.
PEAK_BYTES = 32 << 20
#: So often a sample is written whatever changed; it shows that somebody looked.
AT_LEAST_EVERY = 60.0
#: After so many samples twice the change is needed, after twice as many four times, and so on: a run of weeks takes
#: some ten megabytes for each GPU.
CROWDED = 20_000
#: Looking takes at most this share of the time: nvidia-smi may need a second, the driver's library a millisecond.
MOST_SHARE = 0.2

#: A process of somebody else is named from this many bytes on, and so many are named.
STRANGER_BYTES = 256 << 20
MOST_STRANGERS = 8

Say = Callable[[str], None]


class Changes:
    """Decides which samples are worth a line."""

    def __init__(self) -> None:
        self._last: GpuSample | None = None
        self._most: dict[int, int] = {}
        self._least_available: int | None = None
        self._written = 0

    def worth(self, sample: GpuSample) -> bool:
        """Whether it differs enough from the last one that was written; takes note of it then."""
        last = self._last
        if last is None or sample.clock - last.clock >= AT_LEAST_EVERY or self._differs(last, sample):
            self._last = sample
            self._written += 1
            for gpu in sample.gpus:
                self._most[gpu.index] = max(self._most.get(gpu.index, 0), gpu.used_bytes or 0)
            available = sample.host.available_bytes if sample.host is not None else None
            if available is not None:
                self._least_available = min(available, self._least_available or available)
            return True
        return False

    def _differs(self, last: GpuSample, now: GpuSample) -> bool:
        factor = 2 ** (self._written // CROWDED)
        before = {gpu.index: gpu for gpu in last.gpus}
        if before.keys() != {gpu.index for gpu in now.gpus} or (last.host is None) != (now.host is None):
            return True
        if any(self._gpu(before[gpu.index], gpu, factor) for gpu in now.gpus):
            return True
        return last.host is not None and now.host is not None and self._host(last.host, now.host, factor)

    def _gpu(self, before: Gpu, now: Gpu, factor: int) -> bool:
        if {one.pid for one in before.processes} != {one.pid for one in now.processes}:
            return True
        if now.used_bytes is None or before.used_bytes is None:
            return now.used_bytes is not before.used_bytes
        if now.used_bytes >= self._most.get(now.index, 0) + PEAK_BYTES * factor:
            return True
        step = max(PEAK_BYTES, SHARE * (now.capacity_bytes or 0)) * factor
        return abs(now.used_bytes - before.used_bytes) >= step

    def _host(self, before: Host, now: Host, factor: int) -> bool:
        limit = now.cgroup_limit_bytes or now.total_bytes or 0
        step = max(PEAK_BYTES, 2 * SHARE * limit) * factor
        pairs = (
            (before.rss_bytes, now.rss_bytes),
            (before.available_bytes, now.available_bytes),
            (before.shm_free_bytes, now.shm_free_bytes),
        )
        return any(a is not None and b is not None and abs(a - b) >= step for a, b in pairs)


class Strangers:
    """Notices processes that are not the job's and come to a card that the job uses, after the first look."""

    def __init__(self) -> None:
        self._there: set[int] | None = None
        self._told = 0

    def came(self, gpus: Sequence[Gpu]) -> list[str]:
        """A sentence for each that holds much now, once for each process."""
        large = {
            one.pid: (gpu, one)
            for gpu in gpus
            for one in gpu.processes
            if not one.ours and (one.used_bytes or 0) >= STRANGER_BYTES
        }
        if self._there is None:
            self._there = set(large)
            return []
        said = []
        for pid, (gpu, one) in large.items():
            if pid in self._there or not any(process.ours for process in gpu.processes):
                continue
            self._there.add(pid)
            self._told += 1
            if self._told <= MOST_STRANGERS:
                size = format_bytes(one.used_bytes or 0)
                name = one.name or "a process"
                said.append(
                    f"{name} (process {pid}), not of this job, came to GPU {gpu.index} and holds {size} there"
                )
        return said


class Sampler(threading.Thread):
    """Samples until `finish`. Nothing raises: a machine that cannot be read any more, or a file that cannot be written,
    is said once."""

    def __init__(
        self, machine: Machine, folder: Path, host: str, every: float, pids: Sequence[int], say: Say
    ) -> None:
        super().__init__(name="oomph-gpus", daemon=True)
        self._machine = machine
        self._path = folder / GPUS / f"{host}.jsonl"
        self._every = every
        self._pids = tuple(pids)
        self._say = say
        self._changes = Changes()
        self._strangers = Strangers()
        self._over = threading.Event()
        self._told = False
        self._file: int | None = None

    def run(self) -> None:
        """Looks again and again; the last look is before the command is gone for good."""
        while True:
            began = time.monotonic()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - whatever a driver does, the job goes on
                self._trouble(f"the GPUs can no longer be read ({type(error).__name__}: {error})")
            took = time.monotonic() - began
            if self._over.wait(max(self._every - took, took / MOST_SHARE - took)):
                return

    def _look(self) -> None:
        gpus = self._machine.gpus(self._pids)
        host = self._machine.host(self._pids)
        sample = GpuSample(time.time(), time.monotonic(), gpus, host, self._machine.source())
        if self._changes.worth(sample):
            self._write(sample)
        for sentence in self._strangers.came(gpus):
            self._say(sentence)

    def _write(self, sample: GpuSample) -> None:
        try:
            if self._file is None:
                self._path.parent.mkdir(exist_ok=True)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(self._file, msgspec.json.encode(sample) + b"\n")
        except OSError as error:
            self._trouble(f"{self._path} cannot be written ({error.strerror or error})")

    def _trouble(self, sentence: str) -> None:
        if not self._told:
            self._told = True
            self._say(sentence)

    def finish(self) -> None:
        """Stops; does not wait for a driver that hangs."""
        self._over.set()
        self.join(timeout=2.0)
        if self._file is not None and not self.is_alive():
            os.close(self._file)
            self._file = None
