"""What the user says of the job beside a log: a whole job, files that say parts of it, a model's name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.job.importers import Imported, Value, read
from oomph.job.inputs import WHOLE, read_inputs
from oomph.job.model import Job
from oomph.job.names import model as model_named


@dataclass(frozen=True)
class Given:
    """What the user says of the job: a whole job, or files that say parts of it."""

    imported: tuple[Imported, ...] = ()
    whole: Job | None = None
    names: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


def given_as(job: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Job) -> Given:
    """What the caller of `explain` says of the job. Errors as `read_given`."""
    if isinstance(job, Job):
        return Given(whole=job, names=("the job",))
    several = [job] if isinstance(job, (str, os.PathLike)) else list(job)
    return read_given([os.fspath(each) for each in several])


def read_given(inputs: Sequence[str]) -> Given:
    """The files, folders and names of `--job`. Raises UsageError and InputError as `oomph plan` does."""
    whole = read_inputs(list(inputs))
    names = tuple(inputs)
    if whole.said == WHOLE:
        return Given(whole=whole.job, names=names, unsupported=whole.unsupported)
    imported = []
    for name in inputs:
        path = Path(name).expanduser()
        file = path / "config.json" if path.is_dir() else path
        if file.is_file():
            imported.append(read(file))
        else:
            known = model_named(name)
            imported.append(Imported("config.json", name, {"model.name": Value(name, name)}, model=known))
    return Given(tuple(imported), names=names, unsupported=whole.unsupported)
