"""Jobs from the files that people have.

    read(path_or_text) -> Imported       one file: which format it is, and what it says
    merge(*imported) -> (Job, notes)     all files about one job

    points.from_point(row, configs)      a published measurement

What a file says and a job cannot say is in `Imported.unsupported` and `Imported.unknown`, by name.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from oomph.errors import UsageError
from oomph.job.importers import composing
from oomph.job.importers.imported import Imported, Value
from oomph.job.importers.merging import gather
from oomph.job.importers.recognise import reader_of, recognise
from oomph.job.importers.text import load
from oomph.job.model import Job

__all__ = ["Imported", "Value", "merge", "read"]


def read(path_or_text: Path | str, kind: str | None = None) -> Imported:
    """Reads one file (a Path, the name of a file, or text) in the format that its content shows, or in that of `kind`.

    Raises InputError where nothing can be read or no format is recognised, UsageError for a `kind` that is none.
    """
    source = load(path_or_text)
    reader = recognise(source) if kind is None else reader_of(kind)
    return reader(source)


def merge(*imported: Imported, gpus: int | None = None) -> tuple[Job, tuple[str, ...]]:
    """The job that files describe together, and notes: contradictions, defaults that were taken and whose they are.
    `gpus` in all, where the caller knows them: files often leave the number to the launcher, and what a framework does
    by itself with several is decided by it.

    Raises UsageError for what cannot be one job.
    """
    if not imported:
        raise UsageError("there is no file to make a job of")
    facts = gather(imported)
    if gpus is not None:
        facts.values["hardware.gpus"] = Value(gpus, f"{gpus} GPUs")
        for path in ("given.nodes", "hardware.per_node"):
            facts.values.pop(path, None)
    known = composing.model(facts)
    composing.ranks(facts)
    composing.batch(facts)
    composing.deepspeed_auto(facts, known)
    composing.method(facts)
    composing.precision(facts, known)
    composing.optimizer(facts)
    for path, needed in facts.values.items():
        if path.startswith("given.needs.") and path.removeprefix("given.needs.").lower() not in _read_kinds(
            imported
        ):
            facts.note(f"{needed.quote}: that file is not among those given, and it matters: give it as well")
    tree: dict[str, object] = {}
    for path, value in facts.values.items():
        if path.startswith(("given.", "model.", "framework.")):
            continue
        _put(tree, path.split("."), value.value)
        if value.default:
            facts.note(f"{path} = {value.value}: {value.quote}")
    tree["model"] = known
    tree["framework"] = composing.framework(facts)
    return _job(tree), tuple(facts.notes)


def _read_kinds(imported: tuple[Imported, ...]) -> set[str]:
    kinds = {each.kind.lower() for each in imported}
    # A file that a script takes can be of any trainer.
    return kinds | ({"trainer"} if kinds - {"command", "accelerate", "deepspeed", "config.json"} else set())


def _put(tree: dict[str, object], path: list[str], value: object) -> None:
    for part in path[:-1]:
        inner = tree.setdefault(part, {})
        assert isinstance(inner, dict)
        tree = inner
    tree[path[-1]] = value


def _job(tree: dict[str, object]) -> Job:
    model, framework = tree.pop("model"), tree.pop("framework")
    try:
        job = msgspec.convert(tree, Job)
    except msgspec.ValidationError as error:
        raise UsageError(f"the files do not make a job: {error}") from None
    return msgspec.structs.replace(job, model=model, framework=framework)
