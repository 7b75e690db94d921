"""A training script that the traced one starts as another process runs in its place, in this process.

`trl sft`, `llamafactory-cli train` and `accelerate launch` as a library start what they were asked for with
`subprocess` or with torch's elastic agent; a trace has to follow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from oomph.errors import OomphError
from oomph.tracing.target import Kind, Target, parse

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def training_target(
    words: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Target | None:
    """What a command line would run, if that is a Python script or something behind a launcher; else None."""
    try:
        target = parse(words, folder=folder, environment=environment)
    except OomphError:
        return None
    if target.launcher is not None or target.kind is Kind.SCRIPT:
        return target
    return None


def run(
    recorder: Recorder,
    target: Target,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> int:
    """Runs it here and gives its exit code. Whatever else it raises ends the trace, as it would have ended the job."""
    from oomph.tracing.child import accelerate_launch, script

    world = target.world_size
    if world is not None and world != recorder.settings.world:
        recorder.note(processes_note(world, recorder.settings.world))
    recorder.note(f"{target.shown} was to run as another process; it was run in this one.")
    extra = {**rank_variables(recorder, world or 1), **target.environment}
    if target.launcher is not None:
        extra = {**target.launcher.environment, **extra}
    with _aside({**(os.environ if environment is None else environment), **extra}, folder):
        if target.launcher is not None and target.launcher.name == "accelerate":
            os.environ.update(accelerate_launch.variables(target.launcher, recorder.settings.world))
        try:
            script.run(target)
        except SystemExit as ended:
            code = ended.code
            return 0 if code is None else code if isinstance(code, int) else 1
    return 0


def processes_note(started: int, world: int) -> str:
    """What is to be said where the script's own number of processes is not the trace's."""
    return f"The script starts {started} processes; this trace is of {world}: --world {started} traces that many."


def rank_variables(recorder: Recorder, world: int) -> dict[str, str]:
    """What a launcher would set for the traced rank; nothing for one process."""
    settings = recorder.settings
    if world <= 1 and settings.world <= 1:
        return {}
    return {
        "RANK": str(settings.rank),
        "LOCAL_RANK": os.environ.get("LOCAL_RANK", str(settings.rank % max(settings.device_count, 1))),
        "WORLD_SIZE": str(settings.world),
        "LOCAL_WORLD_SIZE": os.environ.get("LOCAL_WORLD_SIZE", str(settings.device_count)),
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
        "MASTER_PORT": os.environ.get("MASTER_PORT", "29500"),
    }


@contextmanager
def _aside(environment: Mapping[str, str], folder: Path | None) -> Iterator[None]:
    """Puts the running script's `sys.argv`, `__main__`, path, folder and variables aside."""
    here = Path.cwd()
    argv, main, path, variables = sys.argv, sys.modules["__main__"], list(sys.path), dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        if folder is not None:
            os.chdir(folder)
        yield
    finally:
        os.chdir(here)
        sys.argv, sys.modules["__main__"], sys.path[:] = argv, main, path
        os.environ.clear()
        os.environ.update(variables)


def program(word: str) -> str:
    """The name of a command without its folder."""
    return PurePath(word).name
