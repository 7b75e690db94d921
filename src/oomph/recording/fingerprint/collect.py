"""All sources, one after the other: a source that fails says so in `missing` and stops no other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from oomph.evidence.run.model import FINGERPRINT, VERSION, Fingerprint, rank_name
from oomph.recording.fingerprint.arguments import arguments as of_arguments
from oomph.recording.fingerprint.data import data as of_data
from oomph.recording.fingerprint.environment import environment as of_environment
from oomph.recording.fingerprint.found import Found
from oomph.recording.fingerprint.git import git
from oomph.recording.fingerprint.gpu import gpu
from oomph.recording.fingerprint.machine import machine
from oomph.recording.fingerprint.model import model as of_model
from oomph.recording.fingerprint.seed import seed as of_seed
from oomph.recording.fingerprint.versions import versions

#: Seconds after which whatever costs time stops.
SECONDS = 0.08


def fingerprint(
    model: object = None,
    arguments: object = None,
    data: object = None,
    *,
    rank: int = 0,
    whole: bool = True,
    seed: int | None = None,
    device_name: str = "",
    capacity_bytes: int | None = None,
    more: Mapping[str, object] | None = None,
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    root: Path | str = "/",
    script: Path | str | None = None,
    seconds: float = SECONDS,
) -> Fingerprint:
    """What decides about this rank's memory. Never raises, and mostly takes less than 100 ms.

    `model` is a module, or a name or folder; `arguments` are TrainingArguments, a Namespace, a dataclass, a table,
    several of these in a list, or a command line's words (None: this process's own); `data` a data set, a loader,
    files, or a table of these. `whole`: False for ranks that are like rank 0: their GPU, machine, environment and seed.
    `device_name` and `capacity_bytes` are the recorder's device's; `more` are values under names of the caller's.
    `root` is where the system's files are, `script` the file or folder whose git checkout counts (None: this script's).
    """
    found = Found(seconds)
    here, variables = Path(root), os.environ if environment is None else environment
    sources: list[tuple[str, Callable[[], None]]] = [
        ("gpu", lambda: gpu(found, here, device_name, capacity_bytes)),
        ("machine", lambda: machine(found, here)),
        ("environment", lambda: of_environment(found, variables)),
    ]
    if whole:
        sources += [
            ("arguments", lambda: of_arguments(found, arguments, command)),
            ("versions", lambda: versions(found, here)),
            ("model", lambda: of_model(found, model)),
            ("data", lambda: of_data(found, data)),
            ("git", lambda: git(found, _start(script))),
        ]
    sources.append(("seed", lambda: of_seed(found, seed)))
    for name, source in sources:
        try:
            source()
        except Exception as error:  # noqa: BLE001 - a model, an argument or a file may be anything
            found.miss(name, f"it could not be read: {type(error).__name__}: {str(error)[:200]}")
    for name, value in (more or {}).items():
        with suppress(Exception):
            found.put(name, value)
    return Fingerprint(version=VERSION, rank=rank, values=found.values, missing=found.missing)


def write(record: Fingerprint, run_directory: Path | str) -> Path:
    """Writes fingerprint/rank-N.json below a run directory, whole or not at all. Raises OSError."""
    folder = Path(run_directory) / FINGERPRINT
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{rank_name(record.rank)}.json"
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        temporary.replace(target)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    return target


def _start(script: Path | str | None) -> Path:
    """Where the code is: the script's folder, or where the process was started."""
    if script is None:
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        script = main if isinstance(main, str) else None
    if script is None:
        return Path.cwd()
    path = Path(script)
    return path if path.is_dir() else path.parent
