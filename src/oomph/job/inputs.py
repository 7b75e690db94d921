"""What people name when they describe a job: models, job files, and the files of the frameworks that train."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from oomph.errors import InputError, UsageError
from oomph.job.model import Job

#: A job file of oomph's own decides all that has a default for jobs that are described by flags.
WHOLE = frozenset({"batch", "precision", "method.lora.targets"})
#: Bytes of a job file at most.
_LARGEST = 4 << 20
#: Endings of files: a name with one of them is no model's.
_ENDINGS = (".json", ".toml", ".yaml", ".yml", ".txt", ".log", ".bin", ".sh", ".py")


@dataclass(frozen=True)
class Inputs:
    """The job that was read. `said` are the paths of fields that the inputs or their framework decide. `notes` say
    what a reader should know of them, `unsupported` what they ask for that a job cannot say."""

    job: Job
    said: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


def read_inputs(inputs: Sequence[str], *, network: bool = False, gpus: int | None = None) -> Inputs:
    """Reads models and files and merges them. A model that is named has the last word over that of a file. With
    `network`, a model that is known nowhere else is looked for on the hub. `gpus` in all, where something else says
    them: what a framework does by itself depends on their number.

    Raises InputError for a file that is not there or cannot be read, UsageError for a name that is not known and for
    what cannot be one job.
    """
    found = [(name, _file_of(name)) for name in inputs]
    files = [file for _, file in found if file is not None]
    named = [name for name, file in found if file is None]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} are two models: a job trains one")
    result = _read_files(files, named, network=network, gpus=gpus) if files else Inputs(Job())
    return _with_model(result, named[0], network=network) if named else result


def _with_model(result: Inputs, name: str, *, network: bool) -> Inputs:
    """The job of files with the model that was named beside them."""
    from oomph.job.names import model

    before, after = result.job.model, model(name, network=network)
    notes = result.notes
    if before.name and before.name != after.name:
        notes = (*notes, f"{after.name} is planned, and {before.name}, which the files name, contradicts it.")
    return Inputs(replace(result.job, model=after), result.said, notes, result.unsupported)


def _file_of(name: str) -> str | None:
    """The file that an input means, there or not; None for a model's name. A folder means the config.json in it."""
    if not name.strip() or "\0" in name:
        raise UsageError("an input is empty (an unset variable?): name a model or a file")
    try:
        path = Path(name).expanduser()
        if path.is_dir() and (path / "config.json").is_file():
            return str(path / "config.json")
        if path.is_file():
            return str(path)
        if path.is_dir() and name.startswith((".", "/", "~")):
            raise InputError(f"{name}: the folder has no config.json")
    except (OSError, RuntimeError):  # a name that is too long for a path; a home that nobody has
        return None
    if name.lower().endswith(_ENDINGS):
        raise InputError(f"{name}: {'not a regular file' if Path(name).exists() else 'no such file'}")
    return None


def _read_files(files: Sequence[str], named: Sequence[str], *, network: bool, gpus: int | None) -> Inputs:
    """Job files of oomph's own stand alone; those of frameworks are merged. `named`: the model beside them."""
    own = [name for name in files if _is_own(name)]
    if own:
        if len(files) > 1:
            raise UsageError(f"{own[0]} is a whole job: give it alone, and change it with flags")
        from oomph.job.toml import from_toml

        try:
            return Inputs(from_toml(_text(own[0]), network=network), WHOLE)
        except UsageError as error:
            raise UsageError(f"{own[0]}: {error}") from None
    from oomph.job.importers import merge, read

    imported = [read(Path(name)) for name in files]
    own_model = next(
        (name for name, each in zip(files, imported, strict=True) if each.kind == "config.json"), ""
    )
    if own_model and named:
        raise UsageError(f"{own_model} and {named[0]} are two models: a job trains one")
    job, notes = merge(*imported, gpus=gpus)
    if job.model.config and not job.model.name:
        job = replace(job, model=replace(job.model, name=_name_of(files)))
    said = {path for each in imported for path in each.values}
    if any(each.kind != "config.json" for each in imported) or job.method.quantization is not None:
        said |= {"batch.micro", "precision"}
    unknown = [f"{each.name}: {key}" for each in imported for key in each.unknown]
    if unknown:
        notes = (*notes, f"Not understood, and it may matter for memory: {'; '.join(unknown)}.")
    unsupported = tuple(sentence for each in imported for sentence in each.unsupported)
    return Inputs(job, frozenset(said), tuple(notes), unsupported)


def _name_of(files: Sequence[str]) -> str:
    """A name for a model that has none in its config.json: its folder's."""
    path = next((Path(name) for name in files if Path(name).name == "config.json"), Path(files[0]))
    return path.resolve().parent.name if path.name == "config.json" else path.stem


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
