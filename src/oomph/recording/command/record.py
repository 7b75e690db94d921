"""Runs a command and records it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oomph.evidence.run.model import RANKS, rank_name
from oomph.probe.base import Machine
from oomph.recording.command.child import Child, NotStarted
from oomph.recording.command.directory import Directory, make
from oomph.recording.command.hook import with_hook
from oomph.recording.command.keep import KeptFile
from oomph.recording.command.model import Asked, Ended
from oomph.recording.command.pump import Pump
from oomph.recording.command.ranks import LocalRanks
from oomph.recording.command.sampler import Sampler
from oomph.recording.command.split import Splitter
from oomph.recording.command.terminal import Channel, channel, copy_size

Say = Callable[[str], None]
_ENDINGS = (".out", ".err")
#: More ranks than any host runs; a program that prints such prefixes for fun opens no more files.
_MOST_SPLIT = 256


@dataclass
class Started:
    """What `record` needs from outside: the machine (None: nobody looks at the GPUs), and oomph's version."""

    machine: Machine | None
    version: str


def record(asked: Asked, started: Started, environment: Mapping[str, str], say: Say) -> Ended:
    """Runs the command to its end. `say` gets sentences for the user.

    Raises UsageError where a named run directory cannot be used. Everything else that goes wrong with the recording
    leaves the command as it is.
    """
    said = _quietly(say)
    directory = make(asked, environment, started.version, said)
    child = Child()
    child.block()
    try:
        return _run(asked, started, environment, directory, child, said)
    finally:
        child.unblock()


def _quietly(say: Say) -> Say:
    """`say` for threads that may not end because nobody listens (a closed stderr)."""

    def said(sentence: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            say(sentence)

    return said


def _run(
    asked: Asked,
    started: Started,
    environment: Mapping[str, str],
    directory: Directory | None,
    child: Child,
    say: Say,
) -> Ended:
    given = dict(environment)
    channels: list[Channel] = []
    if directory is not None:
        given["OOMPH_RUN_DIR"] = str(directory.path)
        given["OOMPH_COMMAND"] = "1"  # ranks say in two lines what is explained here at the end
        if asked.auto:
            given = with_hook(given)
            if asked.phases:
                given["OOMPH_AUTO"] = "phases"
        channels = _channels(say)
    ends = {one.target: one.inner for one in channels}
    began = time.monotonic()
    try:
        child.start(asked.command, given, ends.get(1), ends.get(2))
    except NotStarted as error:
        say(str(error))
        for one in channels:
            one.close_inner()
            with contextlib.suppress(OSError):
                os.close(one.outer)
        if directory is not None:
            directory.end(error.exit_code, None, 0.0, say)
        return Ended(error.exit_code, None, 0.0, directory.path if directory is not None else None)
    for one in channels:
        one.close_inner()
    if directory is None:
        code, number = child.wait(lambda: None)
        return Ended(code, number, time.monotonic() - began, None)
    return _watched(asked, started, given, directory, child, channels, began, say)


def _watched(
    asked: Asked,
    started: Started,
    environment: Mapping[str, str],
    directory: Directory,
    child: Child,
    channels: list[Channel],
    began: float,
    say: Say,
) -> Ended:
    outputs = _Outputs(asked, directory, environment, channels, say)
    pump = Pump(channels, outputs.keep)
    sampler = None
    if started.machine is not None and asked.every > 0 and directory.samples:
        sampler = Sampler(started.machine, directory.path, directory.host, asked.every, [child.pid], say)
    for thread in (pump, sampler):
        if thread is not None:
            thread.start()

    def resized() -> None:
        for one in channels:
            if one.terminal:
                copy_size(one.target, one.outer)

    code, number = child.wait(resized)
    seconds = time.monotonic() - began
    pump.finish()
    if sampler is not None:
        sampler.finish()
    outputs.close()
    if pump.trouble:
        say(f"the command's output was not kept to its end ({pump.trouble})")
    if pump.left_open:
        say(
            "a process that the command left behind still had its output open; what it prints from now on is lost"
        )
    directory.end(code, number, seconds, say)
    return Ended(code, number, seconds, directory.path, outputs.lost_end, speaks=directory.speaks)


def _channels(say: Say) -> list[Channel]:
    """Those of our streams that are open; without a pipe to be had the command writes to them directly."""
    made: list[Channel] = []
    for target in (1, 2):
        try:
            os.fstat(target)
        except OSError:
            continue
        try:
            made.append(channel(target))
        except OSError as error:
            say(f"the command's output is not kept ({error.strerror or error})")
    return made


class _Outputs:
    """The files that the command's output is kept in: whole, and by rank where its lines say whose they are."""

    def __init__(
        self,
        asked: Asked,
        directory: Directory,
        environment: Mapping[str, str],
        channels: list[Channel],
        say: Say,
    ) -> None:
        self._folder = directory.path
        self._most = asked.keep_bytes
        self._say = say
        self._one_rank = directory.rank is not None
        endings = [_ENDINGS[one.target - 1] for one in channels]
        self._whole = [
            KeptFile(self._folder, directory.stem, ending, asked.keep_bytes, say) for ending in endings
        ]
        self._ranks: dict[tuple[int, str], KeptFile] = {}
        local = LocalRanks(directory.path, asked.command, environment)
        labels = environment.get("SLURM_LABELIO") == "1" or (
            "srun" in asked.command[0] and _labels(asked.command)
        )
        role = _role(asked.command)
        self._split = [Splitter(self._by_rank(ending), local, role=role, labels=labels) for ending in endings]

    def keep(self, index: int, data: bytes) -> None:
        """A copy of what a stream brought. Never raises."""
        self._whole[index].write(data)
        if not self._one_rank:
            self._split[index].feed(data)

    def _by_rank(self, ending: str) -> Callable[[int, bytes], None]:
        def write(rank: int, line: bytes) -> None:
            file = self._ranks.get((rank, ending))
            if file is None:
                if len(self._ranks) >= _MOST_SPLIT:
                    return
                folder: Path = self._folder / RANKS
                file = self._ranks[rank, ending] = KeptFile(
                    folder, rank_name(rank), ending, self._most // 8, self._say
                )
            file.write(line)

        return write

    @property
    def lost_end(self) -> bytes:
        """Of all streams, the end of what could not be written."""
        return b"\n".join(file.lost_end for file in self._whole if file.lost_end)

    def close(self) -> None:
        """Writes what is left, and closes all files."""
        for split in self._split:
            split.close()
        for file in (*self._whole, *self._ranks.values()):
            file.close()


def _role(command: tuple[str, ...]) -> str:
    """What torchrun calls its processes."""
    for index, word in enumerate(command):
        if word.startswith("--role="):
            return word.partition("=")[2]
        if word == "--role" and index + 1 < len(command):
            return command[index + 1]
    return "default"


def _labels(command: tuple[str, ...]) -> bool:
    return any(word in ("-l", "--label") for word in command)
