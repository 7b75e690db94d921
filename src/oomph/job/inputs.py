"""What people name when they describe a job: models, job files, and the files of the frameworks that train."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.errors import InputError, UsageError
from oomph.job.model import Job

if TYPE_CHECKING:
    from oomph.job.model import Model

#: Bytes of a job file at most.
_LARGEST = 4 << 20
#: Endings of files: a name with one of them is no model's.
_ENDINGS = (".json", ".toml", ".yaml", ".yml", ".txt", ".log", ".bin", ".sh", ".py")


@dataclass(frozen=True)
class Inputs:
    """The job that was read; `whole`: from files that decide all of it, and not from a model's name alone. `notes` say
    what a reader should know of them, `unsupported` what they ask for that a job cannot say."""

    job: Job
    whole: bool = False
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


def read_inputs(inputs: Sequence[str], *, network: bool = False) -> Inputs:
    """Reads models and files and merges them. A model that is named has the last word over that of a file. With
    `network`, a model that is known nowhere else is looked for on the hub.

    Raises InputError for a file that is not there or cannot be read, UsageError for a name that is not known and for
    what cannot be one job.
    """
    files = [name for name in inputs if is_file(name)]
    named = [name for name in inputs if name not in files]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} are two models: a job trains one")
    result = _read_files(files, network=network) if files else Inputs(Job())
    if named:
        from oomph.job.names import model

        found: Model = model(named[0], network=network)
        result = Inputs(replace(result.job, model=found), result.whole, result.notes, result.unsupported)
    return result


def is_file(name: str) -> bool:
    """Whether an input means a file, there or not, and not a model (a folder with a config.json is a model)."""
    if not name.strip() or "\0" in name:
        raise UsageError("an input is empty (an unset variable?): name a model or a file")
    try:
        path = Path(name)
        if path.is_dir():
            return False
        if path.is_file():
            return path.name != "config.json"
    except OSError:  # a name that is too long for a path
        return False
    if name.lower().endswith(_ENDINGS):
        raise InputError(f"{name}: no such file")
    return False


def _read_files(files: Sequence[str], *, network: bool) -> Inputs:
    """Job files of oomph's own stand alone; those of frameworks are merged."""
    own = [name for name in files if _is_own(name)]
    if own:
        if len(files) > 1:
            raise UsageError(f"{own[0]} is a whole job: give it alone, and change it with flags")
        from oomph.job.toml import from_toml

        try:
            return Inputs(from_toml(_text(own[0]), network=network), whole=True)
        except UsageError as error:
            raise UsageError(f"{own[0]}: {error}") from None
    from oomph.job.importers import merge, read

    imported = [read(name) for name in files]
    job, notes = merge(*imported)
    unsupported = tuple(sentence for each in imported for sentence in each.unsupported)
    unknown = [f"{each.name}: {key}" for each in imported for key in each.unknown]
    if unknown:
        notes = (*notes, f"Not understood, and it may matter for memory: {'; '.join(unknown)}.")
    return Inputs(job, whole=True, notes=tuple(notes), unsupported=unsupported)


def _is_own(name: str) -> bool:
    """Whether a TOML file is a job as oomph writes it: its keys are parts of a job, and nothing else."""
    if not name.lower().endswith(".toml"):
        return False
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(_text(name))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name}: not valid TOML: {error}") from None
    return bool(table) and set(table) <= set(Job.__struct_fields__)


def _text(name: str) -> str:
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise InputError(f"{name}: {len(data):,} bytes are no job file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{name}: not a text file (UTF-8)") from None
