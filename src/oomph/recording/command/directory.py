"""The run directory of a command: made before it starts, finished after it ended."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from oomph.errors import UsageError
from oomph.evidence.run.files import host_file
from oomph.evidence.run.model import END, RANKS, RUN, VERSION, Run, RunEnd
from oomph.recording.command.model import Asked
from oomph.recording.where import RUNS, new_name
from oomph.recording.writer import create_once

Say = Callable[[str], None]


class Directory:
    """Where a command's run is recorded. `first`: this host made run.json; another host's `oomph record` of the same
    run writes files of its own."""

    def __init__(self, path: Path, run: Run, *, first: bool) -> None:
        self.path = path
        self.run = run
        self.first = first

    @property
    def host(self) -> str:
        """This host's name as files have it."""
        return host_file(socket.gethostname())

    def end(self, exit_code: int, signal: int | None, seconds: float, say: Say) -> None:
        """Writes end.json. Of a run on several hosts the first host's command speaks for the run, unless it went well
        and another's did not."""
        record = RunEnd(time.time(), exit_code, signal, seconds)
        path = self.path / (END if self.first else f"end-{self.host}.json")
        try:
            _replace(path, msgspec.json.encode(record) + b"\n")
        except OSError as error:
            say(f"{path} could not be written ({error.strerror or error})")


def make(asked: Asked, environment: Mapping[str, str], version: str, say: Say) -> Directory | None:
    """The directory, with run.json in it.

    One that was named has to be writable: UsageError says why it is not, before anything has started. Without a name,
    a folder that takes no files is passed over for one in the temporary folder; where none does, None is returned.
    """
    named = asked.run_dir
    if named is None and environment.get("OOMPH_RUN_DIR", "").strip():
        named = Path(environment["OOMPH_RUN_DIR"].strip())
    if named is not None:
        try:
            return _made(named.absolute(), asked, version)
        except (OSError, ValueError) as error:
            raise UsageError(f"{named} cannot be the run directory: {_reason(error)}") from None
    name = new_name(asked.name or _name(asked.command), time.time())
    first: str = ""
    for parent in _parents():
        try:
            made = _made(parent / name, asked, version)
        except (OSError, ValueError) as error:
            first = first or f"{parent} takes no files ({_reason(error)})"
            continue
        if first:
            say(f"{first}: recording into {made.path}")
        return made
    say(f"{first}: the command runs without being recorded")
    return None


def _parents() -> list[Path]:
    found = []
    with contextlib.suppress(OSError):  # the working directory may be gone
        found.append(Path.cwd() / RUNS)
    found.append(Path(tempfile.gettempdir()) / RUNS)
    return found


def _name(command: tuple[str, ...]) -> str:
    """The script of a command rather than its interpreter."""
    for word in command:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    return Path(command[0]).stem


def _made(path: Path, asked: Asked, version: str) -> Directory:
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
    if not first and (path / END).exists():
        raise ValueError("it holds a run that has ended")
    return Directory(path, run, first=first)


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
