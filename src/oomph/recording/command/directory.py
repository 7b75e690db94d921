"""The run directory of a command: made before it starts, finished after it ended."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from oomph.errors import UsageError
from oomph.evidence.run.files import host_file
from oomph.evidence.run.model import END, RANKS, RUN, VERSION, Run, RunEnd, rank_name
from oomph.recording.command.model import Asked
from oomph.recording.where import RUNS, Rank, new_name, rank_of, run_directory
from oomph.recording.writer import create_once

Say = Callable[[str], None]

#: Programs that start the ranks of a node. mpirun and srun are not among them: they start what we are in.
_LAUNCHERS = frozenset(
    ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "composer")
)


class Directory:
    """Where a command's run is recorded. `first`: this process made run.json; another `oomph record` of the same run
    writes files of its own. `rank`: the command is one rank of a job (`srun oomph record -- python train.py`); None
    where it starts the ranks itself."""

    def __init__(self, path: Path, run: Run, *, first: bool, rank: Rank | None = None) -> None:
        self.path = path
        self.run = run
        self.first = first
        self.rank = rank

    @property
    def host(self) -> str:
        """This host's name as files have it."""
        return host_file(socket.gethostname())

    @property
    def stem(self) -> str:
        """What the files of the command's output are called below the directory, without their endings."""
        if self.rank is not None:
            return f"{RANKS}/{rank_name(self.rank.rank)}"
        return "job" if self.first else f"job-{self.host}"

    @property
    def samples(self) -> bool:
        """Whether this process looks at the GPUs: one for each host does."""
        return self.rank is None or self.rank.local_rank == 0

    @property
    def speaks(self) -> bool:
        """Whether this process explains the run at its end: one of a job's ranks does."""
        return self.rank is None or self.rank.rank == 0

    def end(self, exit_code: int, signal: int | None, seconds: float, say: Say) -> None:
        """Writes end.json. Of a run on several hosts the first host's command speaks for the run, unless it went well
        and another's did not."""
        record = RunEnd(time.time(), exit_code, signal, seconds)
        mine = self.host if self.rank is None else rank_name(self.rank.rank)
        path = self.path / (END if self.first else f"end-{mine}.json")
        try:
            _replace(path, msgspec.json.encode(record) + b"\n")
        except OSError as error:
            say(f"{path} could not be written ({error.strerror or error})")


#: A URL, or what pathlib makes of one.
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")


def make(asked: Asked, environment: Mapping[str, str], version: str, say: Say) -> Directory | None:
    """The directory, with run.json in it.

    One that was named has to be writable: UsageError says why it is not, before anything has started. Without a name,
    a folder that takes no files is passed over for one in the temporary folder; where none does, None is returned.
    """
    place = rank_of(environment)
    rank = place if place.world_size > 1 and not starts_ranks(asked.command) else None
    named = asked.run_dir
    if named is None and environment.get("OOMPH_RUN_DIR", "").strip():
        named = Path(environment["OOMPH_RUN_DIR"].strip())
    if named is not None:
        if _URL.match(str(named)):
            raise UsageError(
                f"{named} cannot be the run directory of a command, whose records are appended: record into a folder, "
                "then `oomph runs copy RUN URL`"
            )
        try:
            return _made(named.absolute(), asked, version, rank, joins=place.world_size > 1)
        except (OSError, ValueError) as error:
            raise UsageError(f"{named} cannot be the run directory: {_reason(error)}") from None
    first: str = ""
    for path in _places(asked, environment, place):
        try:
            made = _made(path, asked, version, rank, joins=place.world_size > 1)
        except (OSError, ValueError) as error:
            first = first or f"{path.parent} takes no files ({_reason(error)})"
            continue
        if first:
            say(f"{first}: recording into {made.path}")
        return made
    say(f"{first}: the command runs without being recorded")
    return None


def _places(asked: Asked, environment: Mapping[str, str], place: Rank) -> Iterator[Path]:
    """Where to try, best first. The commands of one job, on several hosts or one for each rank, agree on the first."""
    name = asked.name or _name(asked.command)
    if place.world_size > 1:
        with contextlib.suppress(OSError, ValueError):
            yield run_directory(environment, place, name=name)
    alone = new_name(name, time.time())
    with contextlib.suppress(OSError):  # the working directory may be gone
        yield Path.cwd() / RUNS / alone
    yield Path(tempfile.gettempdir()) / RUNS / alone


def starts_ranks(command: tuple[str, ...]) -> bool:
    """Whether a command is a launcher, whose environment says which node it is on rather than which rank it is."""
    names = {Path(word).stem if word.endswith(".py") else Path(word).name for word in command[:8]}
    return bool(names & _LAUNCHERS)


def _name(command: tuple[str, ...]) -> str:
    """The script of a command rather than its interpreter."""
    for word in command:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    return Path(command[0]).stem


def _made(path: Path, asked: Asked, version: str, rank: Rank | None, *, joins: bool) -> Directory:
    (path / RANKS).mkdir(parents=True, exist_ok=True)
    run = Run(
        version=VERSION,
        id=uuid.uuid4().hex,
        started=time.time(),
        command=asked.command,
        directory=_working_directory(),
        host=socket.gethostname(),
        oomph=version,
        name=asked.name,
        tags=dict(asked.tags),
    )
    first = create_once(path / RUN, msgspec.json.encode(run) + b"\n")
    # Of a job that has commands on several hosts one may have ended before another begins.
    if not first and not joins and (path / END).exists():
        raise ValueError("it holds a run that has ended")
    return Directory(path, run, first=first, rank=rank)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _replace(path: Path, data: bytes) -> None:
    """The whole file or none of it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(data)
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
